// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <CLI/CLI.hpp>
#include <csignal>
#include <knapformer/plan/error.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/experiment_command.hpp"
#include "cli/info_command.hpp"
#include "cli/launch.hpp"
#include "cli/plan_command.hpp"
#include "cli/simulate_command.hpp"
#include "cli/text_file.hpp"
#include "cli/tune_command.hpp"

namespace {

using knapformer::cli::Command;
using knapformer::cli::Launch;

/// The parser would read an empty value, maybe of a shell variable never set, as 0 or as absent.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) throw knapformer::Error(option->get_name() + " is empty; give a value");
    }
  }
  for (const CLI::App* group : command.get_subcommands([](const CLI::App*) { return true; })) {
    refuse_empty_values(*group);
  }
}

std::string joined(int argc, char** argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) out.append(i == 0 ? "" : " ").append(argv[i]);
  return out;
}

void run(Launch& launch, int argc, char** argv) {
  CLI::App app("KnapFormer: online load balancing for training diffusion transformers",
               "knapformer");
  app.set_version_flag("--version", "knapformer " KNAPFORMER_VERSION);
  app.require_subcommand(0, 1);
  std::vector<Command> commands = {knapformer::cli::add_plan_command(app),
                                   knapformer::cli::add_tune_command(app, argv[0]),
                                   knapformer::cli::add_simulate_command(app, joined(argc, argv)),
                                   knapformer::cli::add_info_command(app)};
  for (Command& command : knapformer::cli::add_experiment_commands(app)) {
    commands.push_back(std::move(command));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (launch.is_first()) knapformer::cli::write_text("-", app.help());
    return;
  } catch (const CLI::CallForVersion& version) {
    if (launch.is_first()) knapformer::cli::write_text("-", std::string(version.what()) + '\n');
    return;
  } catch (const CLI::ParseError& error) {
    throw knapformer::Error(std::string(error.what()) + " (see knapformer --help)");
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    refuse_empty_values(*command.app);
    if (command.collective) launch.initialize_mpi();
    if (command.collective || launch.is_first()) command.run();
    return;
  }
  throw knapformer::Error("a command is missing (see knapformer --help)");
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of writing like any other
  Launch launch;
  return launch.run([&] { run(launch, argc, argv); });
}
