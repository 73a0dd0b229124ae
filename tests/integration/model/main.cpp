// A model of the settings beside a running weir: random sequences of what operators, replicas and clients do, and after
// each step the invariants (invariants.hpp). A sequence that fails is made shorter, and printed so that it can be
// played again.
//
// Usage: model [--chaos] [--seed N] [--seconds S]
//        model --replay 'STEP; STEP; ...' | --replay FILE
//   --chaos    plays clients that misbehave at random in place of steps (chaos/chaos.hpp), and counts.
//   --seed     1 if none is given. The scripts follow from it; what happens first depends on the machine, too.
//   --seconds  60 if none are given: no sequence begins later.
//   --replay   plays one script, and says after each step what it was.
//   --help     lists the verbs of a script.
// The program exits 1 if an invariant was broken. At its end it says of each verb how often it was played, and how
// often it had something to do.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <map>
#include <string_view>

#include "tests/integration/chaos/chaos.hpp"
#include "tests/integration/model/generation.hpp"
#include "tests/integration/model/invariants.hpp"

namespace weir::model {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds shortening{90};

struct Numbers {
  std::uint64_t seed = 1, seconds = 60;
  std::string replay;
};

/// Returns what went wrong first. Failures that peers report to GoogleTest count, too: a weir that does not end well.
Played play(const Script& script, Outside& outside, bool tells) {
  testing::TestPartResultArray said;
  std::string failure;
  std::size_t at = 0;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &said);
    try {
      Stage stage(outside);
      try {
        for (; at < script.size(); ++at) {
          if (tells) std::cout << in_one_line({script[at]}) << std::endl;
          auto& times = outside.verbs[script[at].verb];
          ++times.ran;
          times.with_effect += stage.play(script[at]);
          check_after_step(stage);
        }
        stage.come_to_rest([&] { nobody_well_is_out(stage, stage.page()); });
        check_at_rest(stage);
        stage.back_to_the_beginning();
        descriptors_are_as_before(stage);
        stage.ends_under_way();
      } catch (const std::exception& error) {
        failure = error.what();
        if (at < script.size())
          failure += " (after step " + std::to_string(at + 1) + ", " + in_one_line({script[at]}) + ")";
        if (tells) std::cout << "weir said:\n" << stage.weir().output();
      }
    } catch (const std::exception& error) {
      failure = std::string("start: ") + error.what();
    }
  }
  for (int i = 0; i < said.size() && failure.empty(); ++i)
    failure = std::string("end: ") + said.GetTestPartResult(i).message();
  return {failure, std::min(at + 1, script.size())};
}

void print(const Drawn& drawn, std::uint64_t seed, std::uint64_t number) {
  std::cout << "FAILED: sequence " << number << " of seed " << seed << ": " << drawn.shortest_failure << '\n';
  for (const auto& step : drawn.shortest) std::cout << "    " << in_one_line({step}) << '\n';
  std::cout << "  shortened from " << drawn.script.size() << " steps in " << drawn.tries
            << " tries; again with: model --replay '" << in_one_line(drawn.shortest) << "'\n"
            << std::endl;
}

void tell_verbs(const Outside& outside) {
  std::cout << "verbs, played and with something to do:";
  for (const auto& row : verbs()) {
    const auto found = outside.verbs.find(row.verb);
    const auto times = found == outside.verbs.end() ? Outside::Times() : found->second;
    std::cout << ' ' << row.name << ' ' << times.ran << '/' << times.with_effect;
  }
  std::cout << std::endl;
}

/// Few may be told too early.
bool returns_are_true(const Outside& outside) {
  constexpr std::size_t too_few = 40;
  const bool right = outside.told_to_return < too_few || 100 * outside.served_then >= 95 * outside.told_to_return;
  std::cout << (right ? "" : "FAILED: I12: ") << outside.served_then << " of " << outside.told_to_return
            << " who were told when to come back were served then" << std::endl;
  return right;
}

int run(const Numbers& numbers) {
  Outside outside;
  if (!numbers.replay.empty()) {
    std::error_code too_long_for_a_name;
    const bool file = std::filesystem::exists(numbers.replay, too_long_for_a_name);
    const auto script = parse(file ? integration::read_file(numbers.replay) : numbers.replay);
    const auto failure = play(script, outside, true).failure;
    std::cout << (failure.empty() ? "passed" : "FAILED: " + failure) << std::endl;
    return failure.empty() ? 0 : 1;
  }
  std::map<std::string, std::size_t> failed;  // By invariant. The first of each is made shorter.
  std::size_t sequences = 0, steps = 0, failures = 0;
  const auto begun = Clock::now(), end = begun + std::chrono::seconds(numbers.seconds);
  const auto is_first = [&](const std::string& invariant) {
    const auto after = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun).count();
    std::cout << invariant << " is broken after " << after << " s" << std::endl;
    return failed[invariant]++ == 0;
  };
  const Shortens shortens{is_first, shortening};
  const auto play_quietly = [&](const Script& script) { return play(script, outside, false); };
  for (; Clock::now() < end; ++sequences) {
    const auto drawn = draw_and_play(numbers.seed, sequences, play_quietly, shortens);
    steps += drawn.script.size();
    if (drawn.failure.empty()) continue;
    ++failures;
    print(drawn, numbers.seed, sequences);
  }
  std::cout << "seed " << numbers.seed << ": " << sequences << " sequences of " << steps << " steps, "
            << sequences - failures << " passed, " << failures << " failed";
  for (const auto& [invariant, times] : failed) std::cout << "; " << invariant << ": " << times;
  std::cout << std::endl;
  tell_verbs(outside);
  return failures == 0 && returns_are_true(outside) ? 0 : 1;
}

bool read_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

constexpr auto usage =
    "usage: model [--chaos] [--seed N] [--seconds S] [--replay 'STEP; STEP' | --replay FILE] [--help]\n";

void help() {
  std::cout << usage << "A step is a verb and the numbers a and b, 0 if they are not given:\n";
  for (const auto& row : verbs())
    std::cout << "  " << row.name << std::string(20 - row.name.size(), ' ') << row.does << '\n';
}

}  // namespace
}  // namespace weir::model

int main(int argc, char** argv) {
  using namespace weir::model;
  int none = 1;  // GoogleTest has a --help of its own.
  testing::InitGoogleTest(&none, argv);
  Numbers numbers;
  const bool is_chaos = argc > 1 && argv[1] == std::string_view("--chaos");
  for (int i = is_chaos ? 2 : 1; i < argc; i += 2) {
    const std::string_view name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--help") return help(), 0;
    const bool read = name == "--seed"      ? read_number(value, numbers.seed)
                      : name == "--seconds" ? read_number(value, numbers.seconds)
                                            : name == "--replay" && !(numbers.replay = value).empty();
    if (!read) return std::cerr << usage, 2;
  }
  try {
    return is_chaos ? !weir::chaos::every_count_is_exact(numbers.seed, numbers.seconds) : run(numbers);
  } catch (const std::exception& error) {
    std::cerr << "model: " << error.what() << '\n';
    return 2;
  }
}
