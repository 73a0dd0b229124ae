#include "tests/integration/model/generation.hpp"

#include <rapidcheck.h>
#include <rapidcheck/shrink/Shrink.h>

#include <algorithm>
#include <vector>

namespace weir::model {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int longest = 40;
constexpr int nominal = 100;
/// A failure that depends on the machine's pace does not show each time.
constexpr int tries_each = 3;

rc::Gen<Operation> operations() {
  std::vector<Verb> drawn;
  for (const auto& row : verbs()) drawn.insert(drawn.end(), row.weight, row.verb);
  const auto number = rc::gen::resize(nominal, rc::gen::inRange<unsigned>(0, 8));
  return rc::gen::build<Operation>(rc::gen::set(&Operation::verb, rc::gen::elementOf(std::move(drawn))),
                                   rc::gen::set(&Operation::a, number), rc::gen::set(&Operation::b, number));
}

/// Leaves out halves, quarters and so on down to single steps. (RapidCheck's own removeChunks tries a number of scripts
/// that grows with the square of their length, and each takes seconds here.)
std::vector<Script> with_steps_left_out(const Script& script) {
  std::vector<Script> all;
  for (auto size = script.size() / 2; size > 0; size /= 2) {
    for (std::size_t at = 0; at < script.size(); at += size) {
      Script rest(script.begin(), script.begin() + static_cast<std::ptrdiff_t>(at));
      const auto behind = std::min(at + size, script.size());
      rest.insert(rest.end(), script.begin() + static_cast<std::ptrdiff_t>(behind), script.end());
      all.push_back(std::move(rest));
    }
  }
  return all;
}

/// First with steps left out, then with smaller numbers.
rc::Seq<Script> shorter_ones(const Script& script) {
  const auto smaller = [](const Operation& step) {
    const auto with_a = [step](unsigned a) { return Operation{step.verb, a, step.b}; };
    const auto with_b = [step](unsigned b) { return Operation{step.verb, step.a, b}; };
    return rc::seq::concat(rc::seq::map(rc::shrink::towards(step.a, 0U), with_a),
                           rc::seq::map(rc::shrink::towards(step.b, 0U), with_b));
  };
  return rc::seq::concat(rc::seq::fromContainer(with_steps_left_out(script)), rc::shrink::eachElement(script, smaller));
}

/// Two failures are alike if the same invariant is broken.
std::string invariant_of(const std::string& failure) { return failure.substr(0, failure.find(':')); }

}  // namespace

Drawn draw_and_play(std::uint64_t seed, std::uint64_t number, const Play& play, const Shortens& shortens) {
  const rc::Random random(seed * 1'000'003 + number);
  const auto drawn_here = rc::gen::nonEmpty(rc::gen::container<Script>(operations()))(random, longest);
  Drawn drawn;
  drawn.script = drawn_here.value();
  auto played = play(drawn.script);
  drawn.failure = drawn.shortest_failure = played.failure;
  drawn.shortest = Script(drawn.script.begin(), drawn.script.begin() + static_cast<std::ptrdiff_t>(played.steps));
  if (drawn.failure.empty() || !shortens.wanted(invariant_of(drawn.failure))) return drawn;
  const auto deadline = Clock::now() + shortens.at_most;
  // Returns whether the script fails alike, and keeps it then.
  const auto fails = [&](const Script& script, int tries) {
    for (int i = 0; i < tries && Clock::now() < deadline; ++i) {
      ++drawn.tries;
      played = play(script);
      if (invariant_of(played.failure) != invariant_of(drawn.failure)) continue;
      drawn.shortest = Script(script.begin(), script.begin() + static_cast<std::ptrdiff_t>(played.steps));
      drawn.shortest_failure = played.failure;
      return true;
    }
    return false;
  };
  const int tries = fails(drawn.shortest, 1) ? 1 : tries_each;
  for (bool shorter = true; shorter;) {
    shorter = false;
    auto shrinks = shorter_ones(drawn.shortest);
    for (auto next = shrinks.next(); next && !shorter && Clock::now() < deadline; next = shrinks.next())
      shorter = !next->empty() && fails(*next, tries);
  }
  return drawn;
}

}  // namespace weir::model
