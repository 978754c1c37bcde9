// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <knapformer/plan/error.hpp>
#include <memory>
#include <system_error>

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
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // input may be endless
  std::string text;
  std::array<char, 1 << 16> block;
  while (const std::size_t n = std::fread(block.data(), 1, block.size(), file)) {
    if (text.size() + n > kMostBytes) throw Error("cannot read " + name + ": it exceeds 1 GiB");
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
  std::error_code status;
  const auto kind = std::filesystem::status(path, status).type();
  // Opening a pipe waits for its writer, maybe for ever, and devices may be endless.
  if (kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::character) {
    throw Error("cannot read " + named(path) +
                ": it is not a regular file; give - to read the standard input");
  }
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

void require_writable(const std::string& path) {
  if (path == "-") return;
  const File file(std::fopen(path.c_str(), "ab"));
  if (!file) fail("write", named(path));
}

}  // namespace knapformer::cli
