// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>
#include <hdf5.h>

#include <fstream>
#include <string>

#include "example.hpp"
#include "knapformer/plan/error.hpp"
#include "knapformer/trace/trace_reader.hpp"
#include "knapformer/trace/trace_writer.hpp"
#include "support/scratch_folder.hpp"

namespace knapformer {
namespace {

namespace fs = std::filesystem;
using test::example_header;
using test::example_step;
using test::expect_message;
using test::message_of;
using test::ScratchFolder;

fs::path write_trace(const fs::path& file, const TraceHeader& header, std::int64_t steps,
                     TraceFlush flush = {}) {
  TraceWriter writer(file, header, flush);
  for (std::int64_t i = 0; i < steps; ++i) writer.append(example_step(i, header));
  writer.close();
  return file;
}

void expect_steps(const TraceReader& reader, std::int64_t steps) {
  ASSERT_EQ(reader.steps(), steps);
  for (std::int64_t i = 0; i < steps; ++i) {
    EXPECT_EQ(reader.read(i), example_step(i, reader.header())) << "step " << i;
  }
}

std::string read_error(const fs::path& file) {
  return message_of<Error>([&] { TraceReader{file}; });
}

std::string write_error(const fs::path& file) {
  return message_of<Error>([&] { TraceWriter(file, example_header(2, 2)); });
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Trace, ReturnsWhatWasWritten) {
  const ScratchFolder folder;
  struct Case {
    std::int64_t ranks, group_size, steps;
  };
  for (const auto& [ranks, group_size, steps] :
       {Case{1, 1, 1}, Case{6, 2, 600}, Case{7, 7, 20}, Case{9000, 3000, 2}, Case{2, 1, 0}}) {
    SCOPED_TRACE(ranks);
    const TraceHeader header = example_header(ranks, group_size);
    const TraceReader reader(write_trace(folder / "trace.h5", header, steps));
    EXPECT_TRUE(reader.closed());
    TraceHeader expected = header;
    expected.library_version = reader.header().library_version;
    expected.created = reader.header().created;
    EXPECT_EQ(reader.header(), expected);
    EXPECT_FALSE(reader.header().library_version.empty());
    EXPECT_EQ(reader.header().created.size(), std::string("2025-01-31T23:59:59Z").size());
    expect_steps(reader, steps);
    expect_message(message_of<Error>([&] { reader.read(steps); }), {"counted from 0"});
    expect_message(message_of<Error>([&] { reader.read(-1); }), {"no step -1"});
  }
}

TEST(Trace, KeepsLongAndEmptyStrings) {
  const ScratchFolder folder;
  TraceHeader header = example_header(2, 2);
  header.topology.clear();
  header.command_line = std::string(200'000, 'x');
  const TraceReader reader(write_trace(folder / "trace.h5", header, 3));
  EXPECT_EQ(reader.header().topology, "");
  EXPECT_EQ(reader.header().command_line, header.command_line);
}

TEST(Trace, CanBeReadWhileItIsWritten) {
  const ScratchFolder folder;
  const TraceHeader header = example_header(4, 2);
  TraceWriter writer(folder / "trace.h5", header, {5, 1e9});
  EXPECT_EQ(TraceReader(folder / "trace.h5").steps(), 0);
  for (std::int64_t i = 0; i < 23; ++i) writer.append(example_step(i, header));
  {
    const TraceReader reader(folder / "trace.h5");
    EXPECT_FALSE(reader.closed());
    expect_steps(reader, 20);
  }
  writer.flush();
  expect_steps(TraceReader(folder / "trace.h5"), 23);
  writer.close();
  EXPECT_TRUE(TraceReader(folder / "trace.h5").closed());
  expect_message(message_of<Error>([&] { writer.append(example_step(0, header)); }), {"is closed"});
  EXPECT_FALSE(fs::exists(folder / "trace.h5.partial"));
}

TEST(Trace, FlushesByTimeToo) {
  const ScratchFolder folder;
  const TraceHeader header = example_header(2, 1);
  TraceWriter writer(folder / "trace.h5", header, {1'000'000, 0});
  writer.append(example_step(0, header));
  expect_steps(TraceReader(folder / "trace.h5"), 1);
}

TEST(Trace, DestructionClosesTheFile) {
  const ScratchFolder folder;
  const TraceHeader header = example_header(2, 1);
  {
    TraceWriter writer(folder / "trace.h5", header);
    TraceWriter moved = std::move(writer);
    moved.append(example_step(0, header));
    moved = TraceWriter(folder / "other.h5", header);
    const TraceReader reader(folder / "trace.h5");
    EXPECT_TRUE(reader.closed());
    expect_steps(reader, 1);
  }
  EXPECT_TRUE(TraceReader(folder / "other.h5").closed());
}

TEST(Trace, AStepOfOtherSizesIsRefusedAndChangesNothing) {
  const ScratchFolder folder;
  const TraceHeader header = example_header(4, 2);
  TraceWriter writer(folder / "trace.h5", header);
  writer.append(example_step(0, header));
  const auto refused = [&](auto change) {
    TraceStep step = example_step(1, header);
    change(step);
    return message_of<Error>([&] { writer.append(step); });
  };
  expect_message(refused([](TraceStep& s) { s.groups.pop_back(); }), {"step 1", "1 groups", "2"});
  expect_message(refused([](TraceStep& s) { s.ranks.emplace_back(); }), {"5 ranks", "4"});
  expect_message(refused([](TraceStep& s) { s.lengths.clear(); }), {"0 ranks with lengths", "4"});
  expect_message(refused([](TraceStep& s) { s.lengths[2].push_back(1); }),
                 {"rank 2 has 3 sequences and 4 lengths"});
  expect_message(refused([](TraceStep& s) { s.index = -1; }), {"step -1", "negative"});
  writer.append(example_step(1, header));
  writer.close();
  expect_steps(TraceReader(folder / "trace.h5"), 2);
}

TEST(Trace, PlacesThatCannotBeWritten) {
  const ScratchFolder folder;
  expect_message(write_error(folder / "no/trace.h5"), {"there is no folder", "/no"});
  expect_message(write_error(folder / ""), {"cannot create"});
  expect_message(write_error(""), {"names no file"});
  fs::create_directory(folder / "folder");
  expect_message(write_error(folder / "folder"), {"folder", "it is a folder; name a file in it"});
  const fs::path text = folder.write("notes.txt", "mine");
  expect_message(write_error(text / "trace.h5"), {"notes.txt is no folder"});
  expect_message(write_error("/dev/null"), {"/dev/null", "not a regular file"});
  expect_message(write_error("/proc/trace.h5"),
                 {"cannot create", "/proc/trace.h5", "No such file"});
  expect_message(write_error(text),
                 {"notes.txt", "not a trace", "remove it or choose another name"});
  EXPECT_EQ(bytes_of(text), "mine");
}

TEST(Trace, HeadersAndOptionsThatMakeNoSense) {
  const ScratchFolder folder;
  const auto refused = [&](std::int64_t ranks, std::int64_t group_size, TraceFlush flush = {}) {
    return message_of<Error>(
        [&] { TraceWriter(folder / "trace.h5", example_header(ranks, group_size), flush); });
  };
  expect_message(refused(0, 1), {"0 ranks"});
  expect_message(refused(4, 0), {"4 ranks", "groups of 0"});
  expect_message(refused(4, 3), {"4 ranks", "groups of 3"});
  expect_message(refused(4, 2, {0, 1}), {"every 0 steps"});
  expect_message(refused(4, 2, {1, -1}), {"-1 seconds"});
  EXPECT_FALSE(fs::exists(folder / "trace.h5"));
}

TEST(Trace, AnOlderTraceIsReplaced) {
  const ScratchFolder folder;
  write_trace(folder / "trace.h5", example_header(5, 5), 9);
  expect_steps(TraceReader(write_trace(folder / "trace.h5", example_header(2, 1), 3)), 3);
}

TEST(Trace, FilesThatAreNoTraces) {
  const ScratchFolder folder;
  expect_message(read_error(folder / "none.h5"), {"none.h5 does not exist"});
  expect_message(read_error(folder / ""), {"not a regular file"});
  expect_message(read_error(folder.write("empty.h5", "")), {"cannot open", "empty.h5"});
  expect_message(read_error(folder.write("text.h5", "hello")), {"cannot open", "text.h5"});
  expect_message(read_error(fs::path(KNAPFORMER_TEST_DATA) / "transformer_block.h5"),
                 {"transformer_block.h5 is an HDF5 file, but not a trace"});
}

/// A good trace of 3 ranks and 5 steps after `change` was made to it behind our back.
template <class Change>
fs::path changed_trace(const ScratchFolder& folder, Change&& change) {
  fs::remove(folder / "trace.h5");
  const fs::path path = write_trace(folder / "trace.h5", example_header(3, 3), 5);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  EXPECT_GE(file, 0);
  change(file);
  EXPECT_GE(H5Fclose(file), 0);
  return path;
}

void set_attribute(hid_t file, const char* name, std::int64_t value) {
  const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &value), 0);
  H5Aclose(attribute);
}

void shrink(hid_t file, const char* name, hsize_t rows, hsize_t width) {
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  const hsize_t extent[] = {rows, width};
  EXPECT_GE(H5Dset_extent(dataset, extent), 0);
  H5Dclose(dataset);
}

TEST(Trace, FilesOfAnotherSchemaVersion) {
  const ScratchFolder folder;
  const fs::path path = changed_trace(
      folder, [](hid_t file) { set_attribute(file, "schema_version", kTraceSchemaVersion + 1); });
  expect_message(read_error(path), {"trace.h5 has schema version 2", "reads version 1", "release"});
  expect_steps(TraceReader(write_trace(path, example_header(2, 1), 3)), 3);
}

TEST(Trace, DamagedFiles) {
  const ScratchFolder folder;
  const auto refused = [&](auto change, std::initializer_list<std::string_view> parts) {
    const std::string message = read_error(changed_trace(folder, change));
    expect_message(message, {"trace.h5"});
    expect_message(message, parts);
  };
  refused([](hid_t f) { set_attribute(f, "ranks", 1LL << 60); }, {"1152921504606846976 ranks"});
  refused([](hid_t f) { set_attribute(f, "ranks", 6); }, {"5 x 1", "5 x 2", "damaged"});
  refused([](hid_t f) { set_attribute(f, "group_size", 0); }, {"groups of 0"});
  refused([](hid_t f) { H5Adelete(f, "topology"); }, {"attribute topology"});
  refused([](hid_t f) { H5Ldelete(f, "/plan/hash", H5P_DEFAULT); }, {"/plan/hash"});
  refused([](hid_t f) { shrink(f, "/step/loss", 4, 0); }, {"/step/loss", "damaged"});
  refused([](hid_t f) { shrink(f, "/rank/work_after", 4, 3); }, {"/rank/work_after", "damaged"});
  refused([](hid_t f) { shrink(f, "/lengths/offsets", 15, 0); }, {"/lengths/offsets", "damaged"});

  const TraceReader reader(
      changed_trace(folder, [](hid_t file) { shrink(file, "/lengths/values", 5, 0); }));
  expect_message(message_of<Error>([&] { reader.read(4); }), {"offsets", "damaged"});
  EXPECT_EQ(reader.read(0), example_step(0, reader.header())) << "the rest can be read";
}

TEST(Trace, TruncatedFiles) {
  const ScratchFolder folder;
  const std::string whole = bytes_of(write_trace(folder / "trace.h5", example_header(3, 3), 40));
  for (std::size_t size = 1; size < whole.size(); size += whole.size() / 40) {
    const std::string message = read_error(folder.write("cut.h5", whole.substr(0, size)));
    expect_message(message, {"cannot open", "cut.h5"});
  }
}

TEST(Trace, TruncatedFilesOfAKilledWriter) {
  const ScratchFolder folder;
  const TraceHeader header = example_header(3, 3);
  TraceWriter writer(folder / "trace.h5", header, {1, 1e9});
  for (std::int64_t i = 0; i < 40; ++i) writer.append(example_step(i, header));
  const std::string whole = bytes_of(folder / "trace.h5");  // as it is when the writer stops here
  for (std::size_t size = 1; size < whole.size(); size += whole.size() / 40) {
    try {
      const TraceReader reader(folder.write("cut.h5", whole.substr(0, size)));
      for (std::int64_t row = 0; row < reader.steps(); ++row) reader.read(row);
    } catch (const Error& error) {
      expect_message(error.what(), {"cut.h5"});
    }
  }
}

}  // namespace
}  // namespace knapformer
