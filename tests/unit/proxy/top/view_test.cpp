// The screens of `weir top`, as text.
#include "proxy/top/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/golden.hpp"
#include "tests/unit/proxy/top/document.hpp"

namespace weir::proxy::top {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string shown(const std::string& document, Size size, const State& state = {}, const Standing& standing = {}) {
  const Parsed parsed(document);
  return text_of(view(&parsed.root, size, state, standing).screen, false);
}

std::vector<std::string> rows(const std::string& document, const State& state = {}) {
  const Parsed parsed(document);
  return view(&parsed.root, {80, 24}, state, {}).shown.rows;
}

/// Each screen with a line above that says what is special.
TEST(TopView, ReadsAsItsGoldenFile) {
  std::string all;
  const auto show = [&](const std::string& what, const std::string& screen) { all += "==== " + what + "\n" + screen; };
  const auto usual = usual_document();
  show("80 x 24", shown(usual, {80, 24}));
  show("200 x 50", shown(usual, {200, 50}));
  show("printed once, 60 columns", shown(usual, {60, 0}));
  const Standing dead{"no weir answers at 127.0.0.1:9091: Connection refused", {}}, late{dead.trouble, 12.3};
  show("weir does not answer", text_of(view(nullptr, {80, 5}, {}, dead).screen, false));
  show("weir answers no more", shown(usual, {80, 12}, {}, late));
  // simdjson takes the first of two members of a name.
  for (const std::string weir :
       {R"("draining":true,)", R"("bypass":true,)", R"("ready":false,"why_not_ready":"no replica is up",)",
        R"("settings":{"loaded":"x","ok":false,"errors":["f:1:2: a","f:3:4: b"]},)",
        R"("log":{"lines_lost":7,"loses":true,"waits_for_reader":true,"why":"No space"},)"})
    show(weir, shown(document_json(replica_json("gpu0"), "", weir), {100, 10}));
  auto sleeper = replica_json("gpu0", "up", 0, "it says that it sleeps");
  show("the reason of one that is up is not shown", shown(document_json(sleeper), {80, 8}));
  sleeper.insert(sleeper.find(R"("leaving")"), R"("asleep":true,)");
  show("it sleeps", shown(document_json(sleeper), {80, 8}));
  State state;
  state.filter = "nothing such";
  show("a filter", shown(usual, {80, 9}, state));
  state = {};
  state.section = Section::row;
  state.row_of = Section::replicas;
  state.chosen = "gpu1";
  show("a row", shown(usual, {100, 60}, state));
  state.chosen = "gone";
  show("a row that is gone", shown(usual, {100, 5}, state));
  state = {};
  state.chosen = "gpu1";
  state.asks = Change::drain;
  show("d", shown(usual, {100, 24}, state));
  show("d of the last one", shown(document_json(replica_json("gpu1")), {100, 12}, state));
  state.asks = Change::undrain;
  show("u", shown(usual, {100, 12}, state));
  tests::expect_golden("top.txt", all);
  const Parsed parsed(usual);
  EXPECT_EQ(view(&parsed.root, {80, 24}, {}, late).screen[5].cells()[0].style.colour, Colour::faded);
}

TEST(TopView, TwoHundredReplicasTheWorstFirst) {
  std::string replicas;
  for (int i = 0; i < 200; ++i)
    replicas += (i > 0 ? "," : "") + replica_json("gpu" + std::to_string(i), i == 137 ? "down" : "up", 12,
                                                  i == 137 ? "it refuses connections" : "");
  const auto document = document_json(replicas, finding_json("slow_replica", "gpu99", "gpu99 is slow"));
  const auto order = rows(document);
  ASSERT_EQ(order.size(), 200U);
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 5), ElementsAre("gpu137", "gpu99", "gpu0", "gpu1", "gpu2"));
  EXPECT_THAT(shown(document, {80, 24}), AllOf(HasSubstr("gpu137"), HasSubstr("    it refuses connections"),
                                               HasSubstr("more lines: r shows them")));
  State last;
  last.chosen = "gpu199";
  for (const auto section : {Section::all, Section::replicas}) {
    last.section = section;
    EXPECT_THAT(shown(document, {80, 24}, last), HasSubstr("\ngpu199 "));
  }
  EXPECT_THAT(shown(document, {80, 0}), AllOf(HasSubstr("\ngpu199 "), Not(HasSubstr("more lines"))));
}

TEST(TopView, FiltersAndSorts) {
  State state;
  state.filter = "GPU -ejected";
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu1", "gpu10", "gpu0"));
  state.filter = "slow";
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu1"));
  state = {};
  state.sorted_by = 1;
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu0", "gpu1", "gpu2", "gpu10"));
  state.sorted_by = 5;
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu0", "gpu1", "gpu10", "gpu2"));
  state.section = Section::keys;
  state.sorted_by = 0;
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("flood", "alice"));
}

TEST(TopView, AScreenHasItsSizeWhateverTheSizeAndTheKeys) {
  const Parsed usual(usual_document()), empty(R"({"weir":{}})");
  std::mt19937 random(3);
  const std::string_view letters = "prKe?/sjkdwu\r\x1b";
  for (int round = 0; round < 150; ++round) {
    State state;
    Shown last;
    for (int step = 0; step < 12; ++step) {
      const Size size{1 + random() % 220, 1 + random() % 60};
      const auto* document = random() % 8 == 0 ? nullptr : random() % 8 == 0 ? &empty.root : &usual.root;
      const Standing standing{random() % 4 == 0 ? "no weir answers" : "", static_cast<double>(random() % 9)};
      auto made = view(document, size, state, standing);
      ASSERT_EQ(made.screen.size(), size.lines) << size.columns;
      for (const auto& line : made.screen) ASSERT_EQ(line.cells().size(), size.columns);
      last = std::move(made.shown);
      press(state, {Key::letter, letters[random() % letters.size()]}, last);
      if (random() % 3 == 0) press(state, {static_cast<Key>(1 + random() % 8)}, last);
    }
  }
}

TEST(TopView, FiguresReadAsOnThePage) {
  EXPECT_EQ(short_number({}), "-");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(7), "7");
  EXPECT_EQ(short_number(0.4), "0.40");
  EXPECT_EQ(short_number(41.2), "41.2");
  EXPECT_EQ(short_number(1900), "1.9k");
  EXPECT_EQ(short_number(23'400), "23k");
  EXPECT_EQ(short_number(4.1e6), "4.1M");
  EXPECT_EQ(latency(0.0002), "0.20ms");
  EXPECT_EQ(latency(0.071), "71ms");
  EXPECT_EQ(latency(1.2), "1.20s");
  EXPECT_EQ(latency(125), "2m05s");
  EXPECT_EQ(age(7), "7s");
  EXPECT_EQ(age(252), "4m12s");
  EXPECT_EQ(age(11'045), "3h04m");
  EXPECT_EQ(age(5 * 86'400 + 7200), "5d02h");
  EXPECT_EQ(percent(0.9995), "99.95");
  EXPECT_EQ(percent(0.61), "61");
  EXPECT_EQ(bytes(43e6), "41MiB");
  EXPECT_EQ(between("2026-11-26T23:59:59.500Z", "2026-11-27T00:00:01.000Z"), 1.5);
  EXPECT_EQ(between("yesterday", "2026-11-27T00:00:01.000Z"), Number{});
  EXPECT_EQ(clock("2026-11-26T12:40:07.001Z"), "12:40:07");
}

}  // namespace
}  // namespace weir::proxy::top
