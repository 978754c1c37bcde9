// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <charconv>
#include <knapformer/plan/error.hpp>
#include <knapformer/plan/topology.hpp>

#include "plan/message.hpp"

namespace knapformer {
namespace {

// More ranks than any machine has: a larger number is a typing error, and would only fill memory.
constexpr std::uint64_t kMaxRanks = std::uint64_t{1} << 24;

constexpr std::string_view kElastic = "elastic";

struct Term {
  std::int64_t degree = 0;
  std::int64_t count = 0;
};

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Reads one term such as "g4n8" and complains about it in the terms of the whole text.
class TermReader {
 public:
  TermReader(std::string_view topology, std::string_view term)
      : topology_(topology), term_(trimmed(term)), rest_(term_) {}

  Term read() {
    if (term_.empty()) fail("a term is missing");
    Term term;
    expect('g');
    term.degree = positive_number("degree");
    expect('n');
    term.count = positive_number("count");
    if (!rest_.empty()) fail("something follows it");
    return term;
  }

  bool empty() const { return term_.empty(); }

  std::int64_t read_max_degree() {
    const std::int64_t degree = positive_number("largest degree");
    if (!rest_.empty()) fail("something follows it");
    return degree;
  }

  [[noreturn]] void fail(const std::string& why) const {
    std::string message = "topology " + quoted(topology_) + ": ";
    if (!term_.empty()) message += "cannot use the term " + quoted(term_) + ": ";
    throw Error(message + why +
                "; expected elastic, elastic<k> for bags of at most k ranks, or terms "
                "g<degree>n<count> joined by '+', for example g1n4+g4n1");
  }

 private:
  void expect(char letter) {
    rest_ = trimmed(rest_);
    if (rest_.empty() || rest_.front() != letter) fail(std::string("'") + letter + "' is missing");
    rest_.remove_prefix(1);
  }

  std::int64_t positive_number(const std::string& what) {
    rest_ = trimmed(rest_);
    std::uint64_t value = 0;  // unsigned, so that a sign is not read
    const char* end = rest_.data() + rest_.size();
    const auto [stop, error] = std::from_chars(rest_.data(), end, value);
    if (error == std::errc::invalid_argument) fail("its " + what + " is missing");
    if (error == std::errc::result_out_of_range || value > kMaxRanks) {
      fail("its " + what + " is above " + std::to_string(kMaxRanks));
    }
    if (value == 0) fail("its " + what + " is zero");
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    return static_cast<std::int64_t>(value);
  }

  std::string_view topology_, term_, rest_;
};

}  // namespace

Topology Topology::parse(std::string_view text) {
  if (const std::string_view name = trimmed(text); name.starts_with(kElastic)) {
    TermReader degree(text, name.substr(kElastic.size()));
    return degree.empty() ? elastic() : elastic(degree.read_max_degree());
  }
  std::vector<Term> terms;
  std::uint64_t ranks = 0;
  for (std::string_view rest = text;;) {
    const std::size_t plus = rest.find('+');
    TermReader reader(text, rest.substr(0, plus));
    const Term term = reader.read();
    for (const Term& other : terms) {
      if (other.degree == term.degree) reader.fail("bags of this degree are given twice");
    }
    ranks += static_cast<std::uint64_t>(term.degree * term.count);
    if (ranks > kMaxRanks) {
      reader.fail("the topology has more than " + std::to_string(kMaxRanks) + " ranks");
    }
    terms.push_back(term);
    if (plus == std::string_view::npos) break;
    rest.remove_prefix(plus + 1);
  }

  Topology topology;
  for (const auto& [degree, count] : terms) {
    if (!topology.name_.empty()) topology.name_ += '+';
    topology.name_ += 'g' + std::to_string(degree) + 'n' + std::to_string(count);
    for (std::int64_t i = 0; i < count; ++i) {
      topology.bags_.push_back({topology.ranks_, degree});
      topology.ranks_ += degree;
    }
  }
  return topology;
}

Topology Topology::elastic(std::int64_t max_degree) {
  if (max_degree < 1 || max_degree > kAnyDegree) {
    throw Error("elastic topology: the largest degree is " + std::to_string(max_degree) +
                "; expected 1 to " + std::to_string(kAnyDegree));
  }
  Topology topology;
  topology.max_degree_ = max_degree;
  topology.name_ = kElastic;
  if (max_degree < kAnyDegree) topology.name_ += std::to_string(max_degree);
  return topology;
}

Topology Topology::singles(std::int64_t ranks) { return parse("g1n" + std::to_string(ranks)); }

}  // namespace knapformer
