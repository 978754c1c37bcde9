// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Core.hpp>
#include <memory_resource>
#include <vector>

#include "c/handles.hpp"
#include "plan/message.hpp"

namespace knapformer::c {
namespace {

static_assert(sizeof(knapformer_local_chunk) == sizeof(LocalChunk));
static_assert(sizeof(knapformer_attention_problem) == sizeof(AttentionProblem));
static_assert(KNAPFORMER_ROUTE_SEQUENCES_ADJOINT == int(Movement::kRouteSequencesAdjoint) &&
              KNAPFORMER_ROUTE_SEQUENCES == int(Movement::kRouteSequences) &&
              KNAPFORMER_POST_ATTENTION == int(Movement::kPostAttention) &&
              KNAPFORMER_PRE_ATTENTION == int(Movement::kPreAttention) &&
              KNAPFORMER_REVERSE_ROUTE == int(Movement::kReverseRoute) &&
              KNAPFORMER_ROUTE == int(Movement::kRoute));
static_assert(KNAPFORMER_DOUBLE == int(Element::kDouble) &&
              KNAPFORMER_FLOAT == int(Element::kFloat) && KNAPFORMER_BYTES == int(Element::kOther));

/// One call of a moving function.
struct Move {
  const char* name;
  const Routing& routing;
  int movement;
  std::int64_t count;
  const knapformer_rows* rows;

  [[noreturn]] void refuse(std::int64_t i, const std::string& what) const {
    throw Error(std::string(name) + ": rows[" + std::to_string(i) + "]." + what);
  }

  /// What the core cannot check: it takes for granted that there is memory.
  void check_memory(std::int64_t i, const char* side, const void* data, std::int64_t rows_there,
                    std::int64_t items) const {
    const std::int64_t row_bytes = rows[i].row_bytes;
    std::int64_t bytes = 0;
    if (rows_there < 0) {
      refuse(i, std::string(side) + "_rows is " + std::to_string(rows_there) + "; give 0 or more");
    }
    if (row_bytes < 0 || __builtin_mul_overflow(rows_there, items, &bytes) ||
        __builtin_mul_overflow(bytes, row_bytes, &bytes)) {
      refuse(i, "row_bytes is " + std::to_string(row_bytes) + " for " +
                    knapformer::plural(rows_there, "row") + "; give a number of bytes");
    }
    if (bytes == 0) return;
    if (!data) refuse(i, std::string(side) + " is NULL, for " + knapformer::plural(bytes, "byte"));
    if (!device_reads(data)) {
      refuse(i, std::string(side) + " is memory that the device cannot read; copy it there first");
    }
  }

  void check(std::int64_t i, std::int64_t from_items, std::int64_t to_items) const {
    if (rows[i].type < KNAPFORMER_BYTES || rows[i].type > KNAPFORMER_DOUBLE) {
      refuse(i, "type is " + std::to_string(rows[i].type) +
                    "; give KNAPFORMER_BYTES, KNAPFORMER_FLOAT or KNAPFORMER_DOUBLE");
    }
    check_memory(i, "from", rows[i].from, rows[i].from_rows, from_items);
    check_memory(i, "to", rows[i].to, rows[i].to_rows, to_items);
  }

  Request start(const knapformer_exec* exec) const {
    if (movement < KNAPFORMER_ROUTE || movement > KNAPFORMER_ROUTE_SEQUENCES_ADJOINT) {
      throw Error(std::string(name) + ": there is no movement " + std::to_string(movement));
    }
    if (count < 1)
      throw Error(std::string(name) + ": " + std::to_string(count) + " buffers; give 1 or more");
    require(rows, name, "rows");
    const auto which = static_cast<Movement>(movement);
    const std::int64_t heads = routing.plan().heads();
    const std::int64_t from_items = which == Movement::kPreAttention ? heads : 1;
    const std::int64_t to_items = which == Movement::kPostAttention ? heads : 1;
    std::pmr::memory_resource* memory = routing.group().host_memory().get();
    std::pmr::vector<ConstRows> from(memory);
    std::pmr::vector<Rows> to(memory);
    for (std::int64_t i = 0; i < count; ++i) {
      check(i, from_items, to_items);
      const auto& [in, out, in_rows, out_rows, bytes, type] = rows[i];
      const auto element = static_cast<Element>(type);
      from.push_back(
          {static_cast<const std::byte*>(in), in_rows, from_items, bytes, true, element});
      to.push_back({static_cast<std::byte*>(out), out_rows, to_items, bytes, true, element});
    }
    return routing.start(exec ? exec->exec : Device(), which, from, to);
  }
};

const Communicator* group_of(const knapformer_routing* routing) {
  return routing ? &routing->routing.group() : nullptr;
}

}  // namespace
}  // namespace knapformer::c

using namespace knapformer::c;

int knapformer_routing_create(const knapformer_communicator* communicator,
                              const knapformer_plan* plan, knapformer_routing** routing) {
  return local([&] {
    require(communicator, "knapformer_routing_create", "communicator");
    require(plan, "knapformer_routing_create", "plan");
    require(routing, "knapformer_routing_create", "routing");
    *routing = nullptr;
    *routing = new knapformer_routing(knapformer::Routing(communicator->group, plan->plan));
  });
}

void knapformer_routing_destroy(knapformer_routing** routing) {
  if (routing) delete std::exchange(*routing, nullptr);
}

const knapformer_plan* knapformer_routing_get_plan(const knapformer_routing* routing) {
  return routing ? &routing->plan : nullptr;
}

int knapformer_routing_get_layout(const knapformer_routing* routing, knapformer_layout* layout) {
  return local([&] {
    require(routing, "knapformer_routing_get_layout", "routing");
    require(layout, "knapformer_routing_get_layout", "layout");
    const knapformer::Routing& r = routing->routing;
    const auto problems = r.attention_problems();
    *layout = {.home_rows = r.home_rows(),
               .routed_rows = r.routed_rows(),
               .head_rows = r.head_rows(),
               .home_sequences = r.home_sequences(),
               .chunk_count = std::ssize(r.chunks()),
               .chunks = reinterpret_cast<const knapformer_local_chunk*>(r.chunks().data()),
               .problem_count = std::ssize(problems),
               .problems = reinterpret_cast<const knapformer_attention_problem*>(problems.data()),
               .unsplit_head_rows = r.unsplit_head_rows(),
               .rows_sent = r.routed_away_rows(),
               .rows_returned = r.routed_back_rows(),
               .head_rows_sent = r.attention_rows_sent(),
               .head_rows_returned = r.attention_rows_returned(),
               .sequence_rows_sent = r.sequence_rows_sent(),
               .sequence_rows_returned = r.sequence_rows_returned()};
  });
}

int knapformer_routing_move(const knapformer_routing* routing, int movement,
                            const knapformer_exec* exec, std::int64_t count,
                            const knapformer_rows* rows) {
  constexpr const char* kName = "knapformer_routing_move";
  return collective(group_of(routing), kName, "routing", [&] {
    Move{kName, routing->routing, movement, count, rows}.start(exec).wait();
  });
}

int knapformer_routing_start_move(const knapformer_routing* routing, int movement,
                                  const knapformer_exec* exec, std::int64_t count,
                                  const knapformer_rows* rows, knapformer_request** request) {
  constexpr const char* kName = "knapformer_routing_start_move";
  return collective(group_of(routing), kName, "routing", [&] {
    require(request, kName, "request");
    *request = nullptr;
    *request = new knapformer_request{
        routing->routing.group(), Move{kName, routing->routing, movement, count, rows}.start(exec)};
  });
}

int knapformer_request_wait(knapformer_request** request) {
  const std::unique_ptr<knapformer_request> taken(request ? std::exchange(*request, nullptr)
                                                          : nullptr);
  return collective(taken ? &taken->group : nullptr, "knapformer_request_wait", "request",
                    [&] { taken->request.wait(); });
}
