#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "metrics/record/answer.hpp"

namespace weir::metrics::record {
namespace {

constexpr SipKey key{1, 2};

Fingerprint of(const std::string& text, const std::string& reasoning = "") {
  FingerprintMaker maker(key);
  maker.text(text);
  maker.reasoning(reasoning);
  return maker.finish();
}

using Calls = std::vector<std::pair<std::string, std::string>>;
Fingerprint calling(const Calls& calls) {
  FingerprintMaker maker(key);
  for (const auto& [name, arguments] : calls) {
    maker.call_name(name);
    maker.call_arguments(arguments);
    maker.end_call();
  }
  return maker.finish();
}
std::optional<bool> same_tools(const Calls& a, const Calls& b) { return likeness(calling(a), calling(b)).same_tools; }

std::string letters(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>('a' + i * 7 % 26);
  return text;
}

TEST(Fingerprint, OfTheSameTextIsTheSameInAnyPieces) {
  std::mt19937 random(7);
  for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 128U, 1000U, 16384U, 20000U}) {
    const std::string text = letters(size);
    const Fingerprint whole = of(text);
    EXPECT_EQ(whole.text.bytes, size);
    for (int round = 0; round < 20; ++round) {
      FingerprintMaker maker(key);
      for (std::size_t at = 0, part = 0; at < size; at += part) {
        part = std::min<std::size_t>(random() % 150, size - at);
        maker.text(text.substr(at, part));
      }
      ASSERT_EQ(maker.finish(), whole) << size;
    }
    const Likeness found = likeness(whole, of(text));
    EXPECT_EQ(found.same_text, true);
    EXPECT_EQ(found.common_prefix_bytes, size) << "where the texts are equal the figure is exact";
  }
}

TEST(Fingerprint, TellsWhereTwoTextsPartTo64Bytes) {
  for (const std::size_t size : {1U, 64U, 200U, 4096U}) {
    const std::string text = letters(size);
    for (std::size_t k = 0; k < size; ++k) {
      if (size == 4096 && k % 61 != 0) continue;
      std::string other = text;
      other[k] = '#';
      const Fingerprint a = of(text);
      for (const Fingerprint& b : {of(other), of(text.substr(0, k))}) {
        const Likeness found = likeness(a, b);
        ASSERT_EQ(found.same_text, false);
        ASSERT_LE(found.common_prefix_bytes, k);
        ASSERT_GT(*found.common_prefix_bytes + 64, k);
        ASSERT_EQ(likeness(b, a).common_prefix_bytes, found.common_prefix_bytes);
      }
    }
  }
}

TEST(Fingerprint, HasCheckpointsUpTo16KiBOnly) {
  const std::string text = letters(100'000);
  EXPECT_EQ(of(text).text.checkpoints.size(), 256U);
  EXPECT_EQ(of(letters(16 * 1024)).text.checkpoints.size(), 256U);
  EXPECT_EQ(of(letters(16 * 1024 - 1)).text.checkpoints.size(), 255U);
  std::string other = text;
  other.back() = '#';
  const Likeness found = likeness(of(text), of(other));
  EXPECT_EQ(found.same_text, false) << "the end counts too";
  EXPECT_EQ(found.common_prefix_bytes, 16U * 1024) << "a lower bound";
}

TEST(Fingerprint, PutsReasoningBeforeTheTextWhereverItCame) {
  FingerprintMaker maker(key);
  maker.text("It");
  maker.reasoning("Okay");
  maker.text(" is");
  EXPECT_EQ(maker.finish(), of("It is", "Okay"));
  EXPECT_NE(of("a", "b"), of("b", "a"));
  const std::string thought = letters(100);
  EXPECT_EQ(likeness(of(letters(64) + "x", thought), of(letters(64) + "y", thought)).common_prefix_bytes, 164U);
  EXPECT_EQ(likeness(of("same", thought + "x"), of("same", thought + "y")).common_prefix_bytes, 64U);
  EXPECT_EQ(likeness(of("same", "x"), of("same", "y")).same_text, false);
}

TEST(Fingerprint, KeepsNoTextAndDependsOnItsKey) {
  FingerprintMaker other(SipKey{1, 3});
  other.text("Hello");
  EXPECT_NE(other.finish().text.hash, of("Hello").text.hash);
}

TEST(Fingerprint, OfNothingCanBeComparedWithNothing) {
  for (const auto& [a, b] : {std::pair(Fingerprint(), of("a")), std::pair(of("a"), Fingerprint()),
                             std::pair(Fingerprint(), Fingerprint())}) {
    const Likeness found = likeness(a, b);
    EXPECT_EQ(found.same_text, std::nullopt);
    EXPECT_EQ(found.common_prefix_bytes, std::nullopt);
    EXPECT_EQ(found.same_tools, std::nullopt);
    EXPECT_FALSE(found.calls);
  }
  FingerprintMaker maker(key);
  maker.text("Hello world");
  maker.lost_text();
  const Fingerprint lost = maker.finish();
  EXPECT_EQ(likeness(lost, of("Hello")).same_text, std::nullopt);
  EXPECT_EQ(likeness(of("Hello"), lost).common_prefix_bytes, std::nullopt);
}

TEST(Fingerprint, TellsWhetherTheSameToolsAreCalled) {
  EXPECT_EQ(same_tools({{"f", R"({"a":1,"b":2})"}}, {{"f", R"({ "b": 2, "a": 1 })"}}), true);
  EXPECT_EQ(same_tools({{"f", R"({"a":1})"}}, {{"f", R"({"a":2})"}}), false);
  EXPECT_EQ(same_tools({{"f", R"({"a":1})"}}, {{"f", R"({"a":1.0})"}}), false) << "numbers as they are written";
  EXPECT_EQ(same_tools({{"f", "{}"}}, {{"g", "{}"}}), false);
  EXPECT_EQ(same_tools({{"f", "{}"}, {"g", "{}"}}, {{"g", "{}"}, {"f", "{}"}}), false) << "order counts";
  EXPECT_EQ(same_tools({{"f", "{}"}}, {{"f", "{}"}, {"f", "{}"}}), false);
  EXPECT_EQ(same_tools({{"f", ""}}, {{"f", " {} "}}), true) << "no arguments are an empty object";
  EXPECT_EQ(same_tools({{"f", "{\"a"}}, {{"f", "{\"a"}}), true) << "equal, though no JSON";
  EXPECT_EQ(same_tools({{"f", "{\"a"}}, {{"f", "{\"a "}}), false);
  EXPECT_EQ(same_tools({{"f", "{}"}}, {}), false);
  EXPECT_EQ(same_tools({}, {}), std::nullopt) << "neither calls";
}

TEST(Fingerprint, TellsOnWhichSideCallsAreJson) {
  const auto valid = [](const Calls& a, const Calls& b) {
    const Likeness found = likeness(calling(a), calling(b));
    return std::string(found.calls ? "calls" : "none") + (found.a_valid ? " a" : "") + (found.b_valid ? " b" : "");
  };
  const Calls good{{"f", "{}"}}, bad{{"f", "{"}}, mixed{{"f", "{}"}, {"f", "{"}};
  EXPECT_EQ(valid(good, good), "calls a b");
  EXPECT_EQ(valid(good, bad), "calls a");
  EXPECT_EQ(valid(mixed, good), "calls b");
  EXPECT_EQ(valid(bad, bad), "calls");
  EXPECT_EQ(valid(good, {}), "calls a") << "who calls nothing makes no valid call";
  EXPECT_EQ(valid({}, {}), "none");
}

TEST(Fingerprint, OfCallsIsTheSameInAnyPieces) {
  const std::string name = "look_up", arguments = R"({"q":"\u65e5本"})";
  for (std::size_t cut = 0; cut <= arguments.size(); ++cut) {
    FingerprintMaker maker(key);
    maker.call_arguments(arguments.substr(0, cut));
    maker.call_name(name.substr(0, cut % name.size()));
    maker.call_name(name.substr(cut % name.size()));
    maker.call_arguments(arguments.substr(cut));
    ASSERT_EQ(maker.finish(), calling({{name, arguments}})) << "a call ends with the answer";
  }
}

TEST(Fingerprint, DoesNotKnowCallsThatAreTooLongTooManyOrWithoutAName) {
  const std::string most = "\"" + std::string(16 * 1024 - 2, 'a') + "\"";
  const Calls longest{{"f", most}}, too_long{{"f", most + " "}};
  EXPECT_EQ(same_tools(longest, longest), true);
  EXPECT_EQ(same_tools(too_long, too_long), std::nullopt);
  EXPECT_TRUE(calling(too_long).calls.empty()) << "nothing half known is kept";
  const Calls many(64, {"f", "{}"}), too_many(65, {"f", "{}"});
  EXPECT_EQ(same_tools(many, many), true);
  EXPECT_EQ(same_tools(too_many, too_many), std::nullopt);
  EXPECT_EQ(same_tools({{"", "{}"}}, {{"", "{}"}}), std::nullopt);
  FingerprintMaker maker(key);
  maker.call_name("f");
  maker.end_call();
  maker.lost_calls();
  EXPECT_EQ(likeness(maker.finish(), calling({{"f", ""}})).same_tools, std::nullopt);
  EXPECT_EQ(likeness(calling(too_long), calling({})).same_text, true) << "the text is known all the same";
}

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(GapSketch, PutsWhatIsShorterThanAMicrosecondIntoBinNought) {
  EXPECT_EQ(GapSketch::bin_of(0ns), 0);
  EXPECT_EQ(GapSketch::bin_of(999ns), 0);
  EXPECT_EQ(GapSketch::bin_of(-5s), 0);
  EXPECT_EQ(GapSketch::bin_of(1us), 1);
  EXPECT_EQ(GapSketch::middle_of(0), 0ns);
}

TEST(GapSketch, HasSixtyFourBinsToADoubling) {
  for (unsigned octave = 0; octave < 40; ++octave) {
    const Nanoseconds low = 1us * (std::int64_t{1} << octave);
    EXPECT_EQ(GapSketch::bin_of(low), 1 + 64 * octave) << octave;
    EXPECT_EQ(GapSketch::bin_of(low - 1ns), 64 * octave) << octave;
    EXPECT_EQ(GapSketch::bin_of(low + low / 2), 1 + 64 * octave + 32) << octave;
  }
}

TEST(GapSketch, MiddleOfABinLiesInItAndWithinEightThousandthsOfEverythingThere) {
  // From 100 us on a nanosecond is too small to matter.
  for (std::uint16_t bin = 64 * 7; bin < 64 * 30; ++bin) {
    const Nanoseconds middle = GapSketch::middle_of(bin);
    EXPECT_EQ(GapSketch::bin_of(middle), bin);
    EXPECT_EQ(GapSketch::bin_of(middle + middle / 110), bin + 1) << bin;
    EXPECT_EQ(GapSketch::bin_of(middle - middle / 110), bin - 1) << bin;
  }
}

/// A log may name any bin.
TEST(GapSketch, NoMiddleIsAboveThatOfTheLongestGap) {
  const Nanoseconds longest = GapSketch::middle_of(GapSketch::bin_of(Nanoseconds::max()));
  for (const int bin : {3400, 3500, 65535})
    EXPECT_EQ(GapSketch::middle_of(static_cast<std::uint16_t>(bin)), longest) << bin;
}

TEST(GapSketch, TakesTheLongestDurationThereIs) { EXPECT_LE(GapSketch::bin_of(Nanoseconds::max()), 64 * 57); }

TEST(GapSketch, KeepsItsBinsSortedCountedAndSummed) {
  GapSketch sketch;
  sketch.add(20ms);
  sketch.add(1us, 3);
  sketch.add(20ms + 15us, 2);
  sketch.add(-5ns);
  const std::uint16_t long_gap = GapSketch::bin_of(20ms);
  EXPECT_THAT(sketch.bins(), ElementsAre(GapSketch::Bin{0, 1}, GapSketch::Bin{1, 3}, GapSketch::Bin{long_gap, 3}));
  EXPECT_EQ(sketch.nanoseconds(), 60'033'000U);
  EXPECT_EQ(sketch.count(), 7U);
}

}  // namespace
}  // namespace weir::metrics::record
