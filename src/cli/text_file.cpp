// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <knapformer/plan/error.hpp>
#include <memory>

namespace knapformer::cli {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail(const char* what, const std::string& name) {
  throw Error(std::string("cannot ") + what + " " + name + ": " + std::strerror(errno));
}

std::string named(const std::string& path) { return '"' + path + '"'; }

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> block;
  while (const std::size_t n = std::fread(block.data(), 1, block.size(), file)) {
    text.append(block.data(), n);
  }
  if (std::ferror(file)) fail("read", name);
  return text;
}

void write_all(std::FILE* file, const std::string& name, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0) {
    fail("write", name);
  }
}

}  // namespace

std::string read_text(const std::string& path) {
  if (path == "-") return read_all(stdin, "the standard input");
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail("read", named(path));
  return read_all(file.get(), named(path));
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") return write_all(stdout, "the standard output", text);
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) fail("write", named(path));
  write_all(file.get(), named(path), text);
  if (std::fclose(file.release()) != 0) fail("write", named(path));
}

}  // namespace knapformer::cli
