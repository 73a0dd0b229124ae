// The screens of `weir top`, as text.
#include "proxy/top/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "tests/unit/proxy/top/document.hpp"

namespace weir::proxy::top {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string shown(const std::string& document, Size size, const State& state = {}, const Standing& standing = {}) {
  const Parsed parsed(document);
  return text_of(view(&parsed.root, size, state, standing).screen, false);
}

std::vector<std::string> rows(const std::string& document, const State& state = {}) {
  const Parsed parsed(document);
  return view(&parsed.root, {80, 24}, state, {}).shown.rows;
}

TEST(TopView, FitsEightyByTwentyFour) {
  EXPECT_EQ(shown(usual_document(), {80, 24}), R"(weir 0.1.0 vm  ready  up 3h12m  loop p99 1.00ms  cpu 0.34/2         14:12:11 UTC
POOL                     UP REQ/S TOK/S FLIGHT/MAX WAIT/MAX OLDEST TTFT50 FAIL/S
chat                    2/4  41.2  5.6k    118/192   69/256  4.10s   90ms   0.40
embeddings-of-d~ments   1/1    12     -          3     0/64      -      -      0
!! 56 of 69 that wait are key flood's; the others wait 0.3 s (for 4m11s)
!  gpu1 is slow: TPOT 2.2x, TTFT 2.1x of its peers; gets 2 % of the requests (f~
REPLICA STATE        FOR  FLIGHT  QTOK TTFT50 TPOT50 TOK/S PRED+-   KV% FAIL+RE
gpu2    ejected   12m11s    0/64  2.1k   91ms   24ms  1.9k     12   61*     0+2
    5 requests in a row failed (500); back in 3 s
gpu1    up!       12m11s   12/64  2.1k   91ms   24ms  1.9k     12   61*     0+2
gpu10   draining  12m11s    3/64  2.1k   91ms   24ms  1.9k     12   61*     0+2
    POST /api/replicas/gpu10/drain
gpu0    up        12m11s   12/64  2.1k   91ms   24ms  1.9k     12   61*     0+2
shadow fp8 is OFF: sent 0/min, in flight 0/64
shadow fp4: sent 245/min, dropped primary waits 2, in flight 57/64, no token fo~
rollout next: live, gets 5.0 % of the requests
KEY    OPEN/MAX  WAIT WAITED REQ/S TOK/S REFUS/M FAIL/M  IN/S
flood       120    56  6.20s    31  4.1k       2      0     -
alice      6/32    13  300ms   5.1   700       0      0     -
limits hit in 60 s: queue 126
14:02:11 gpu2 ejected: 5 requests in a row failed, so it is out for 10 s
14:01:40 reload (SIGHUP): limits.first_token 5m -> 2m

q quit  ? help  p r K e parts  s sort  / filter  Enter row  d drain  u undrain
)");
}

TEST(TopView, AllFiguresOnALargeTerminal) {
  EXPECT_EQ(shown(usual_document(), {200, 50}), R"(weir 0.1.0 vm  ready  up 3h12m  loop p99 1.00ms  cpu 0.34/2  mem 41MiB  conns 130/4.1k  settings of 12:40:00  overhead p99 0.05ms  buffers 0/512MiB  descriptors 230/1.0k                   14:12:11 UTC
POOL                       UP REQ/S TOK/S  IN/S FLIGHT/MAX WAIT/MAX OLDEST TTFT50 TTFT95 TPOT50 FAIL/S REFUS/S  SLO%
chat                      2/4  41.2  5.6k  9.1k    118/192   69/256  4.10s   90ms  1.20s   24ms   0.40     2.1  98.7
embeddings-of-documents   1/1    12     -     -          3     0/64      -      -      -      -      0       0     -
!! 56 of 69 that wait are key flood's; the others wait 0.3 s (for 4m11s)
!  gpu1 is slow: TPOT 2.2x, TTFT 2.1x of its peers; gets 2 % of the requests (for 4m11s)
REPLICA POOL           STATE        FOR  FLIGHT  QTOK OLDEST TTFT50 TTFT95 TPOT50 TOK/S PRED+-   KV% FAIL+RE CACHED%  ENGINE VERSION
gpu2    chat           ejected   12m11s    0/64  2.1k  400ms   91ms  1.20s   24ms  1.9k     12   61*     0+2      31    12+0 vllm 0.9.1
    5 requests in a row failed (500); back in 3 s
gpu1    chat           up!       12m11s   12/64  2.1k  400ms   91ms  1.20s   24ms  1.9k     12   61*     0+2      31    12+0 vllm 0.9.1
gpu10   chat           draining  12m11s    3/64  2.1k  400ms   91ms  1.20s   24ms  1.9k     12   61*     0+2      31    12+0 vllm 0.9.1
    POST /api/replicas/gpu10/drain
gpu0    chat           up        12m11s   12/64  2.1k  400ms   91ms  1.20s   24ms  1.9k     12   61*     0+2      31    12+0 vllm 0.9.1
shadow fp8 is OFF: sent 0/min, in flight 0/64
shadow fp4: sent 245/min, dropped primary waits 2, in flight 57/64, no token for 18s; 812 pairs; tpot worse +16 % (+14 % to +17 %); ttft inconclusive
rollout next: live, gets 5.0 % of the requests
KEY    OPEN/MAX  WAIT WAITED REQ/S TOK/S REFUS/M FAIL/M  IN/S
flood       120    56  6.20s    31  4.1k       2      0     -
alice      6/32    13  300ms   5.1   700       0      0     -
limits hit in 60 s: queue 126
14:02:11 gpu2 ejected: 5 requests in a row failed, so it is out for 10 s
14:01:40 reload (SIGHUP): limits.first_token 5m -> 2m



























q quit  ? help  p r K e parts  s sort  / filter  Enter row  d drain  u undrain
)");
}

TEST(TopView, PrintedOnceItCutsNoSentence) {
  const auto text = shown(usual_document(), {60, 0});
  EXPECT_THAT(text, AllOf(HasSubstr("gets 2 %\nof the requests (for 4m11s)"), HasSubstr("gpu10"),
                          Not(HasSubstr("quit"))));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60U) << line;
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

TEST(TopView, AReplicaThatSleepsHasItsReason) {
  auto sleeper = replica_json("gpu0", "up", 0, "it says that it sleeps");
  EXPECT_THAT(shown(document_json(sleeper), {80, 24}), Not(HasSubstr("it says that it sleeps"))) << "of one that is up";
  sleeper.insert(sleeper.find(R"("leaving")"), R"("asleep":true,)");
  EXPECT_THAT(shown(document_json(sleeper), {80, 24}), HasSubstr("\n    it says that it sleeps"));
}

TEST(TopView, SaysThatWeirDoesNotAnswer) {
  const Standing dead{"no weir answers at 127.0.0.1:9091: Connection refused", {}};
  const auto text = text_of(view(nullptr, {80, 24}, {}, dead).screen, false);
  EXPECT_THAT(text, StartsWith("weir top\nno weir answers at 127.0.0.1:9091: Connection refused\n"));
  const Standing late{dead.trouble, 12.3};
  EXPECT_THAT(shown(usual_document(), {80, 24}, {}, late),
              AllOf(HasSubstr("\nwhat follows is 12s old: no weir answers"), HasSubstr("gpu0")));
  const Parsed parsed(usual_document());
  const auto screen = view(&parsed.root, {80, 24}, {}, late).screen;
  EXPECT_EQ(screen[5].cells()[0].style.colour, Colour::faded);
}

TEST(TopView, SaysFirstHowWeirStands) {
  // simdjson takes the first of two members of a name.
  const auto with = [](const std::string& weir) {
    return shown(document_json(replica_json("gpu0"), "", weir), {100, 24});
  };
  EXPECT_THAT(with(R"("draining":true,)"), HasSubstr("\nweir DRAINS: "));
  EXPECT_THAT(with(R"("bypass":true,)"), HasSubstr("\nBYPASS is on"));
  EXPECT_THAT(with(R"("ready":false,"why_not_ready":"no replica is up",)"),
              AllOf(HasSubstr("NOT READY"), HasSubstr("\nnot ready: no replica is up\n")));
  EXPECT_THAT(with(R"("settings":{"loaded":"x","ok":false,"errors":["f:1:2: a","f:3:4: b"]},)"),
              HasSubstr("\nthe last reload FAILED, and weir goes on with the settings before it:\n"
                        "    f:1:2: a\n    f:3:4: b\n"));
  EXPECT_THAT(with(R"("log":{"lines_lost":7,"loses":true,"waits_for_reader":true,"why":"No space"},)"),
              HasSubstr("\nthe request log LOSES lines: No space; 7 so far\nthe request log waits for a reader"));
}

TEST(TopView, ShowsShadowsThatAreOffOrStuck) {
  const auto text = shown(usual_document(), {200, 50});
  EXPECT_THAT(text, HasSubstr("\nshadow fp8 is OFF: "));
  EXPECT_THAT(text, HasSubstr("no token for 18s"));
  EXPECT_THAT(text, HasSubstr("tpot worse +16 % (+14 % to +17 %); ttft inconclusive"));
}

TEST(TopView, FiltersAndSorts) {
  State state;
  state.filter = "GPU -ejected";
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu1", "gpu10", "gpu0"));
  state.filter = "slow";
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu1"));
  state.filter = "nothing such";
  EXPECT_THAT(shown(usual_document(), {80, 24}, state), HasSubstr("nothing matches the filter"));
  state = {};
  state.sorted_by = 1;
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu0", "gpu1", "gpu2", "gpu10"));
  state.sorted_by = 5;
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("gpu0", "gpu1", "gpu10", "gpu2"));
  state.section = Section::keys;
  state.sorted_by = 0;
  EXPECT_THAT(rows(usual_document(), state), ElementsAre("flood", "alice"));
}

TEST(TopView, ARowShowsAllThatWeirTells) {
  State state;
  state.section = Section::row;
  state.row_of = Section::replicas;
  state.chosen = "gpu1";
  EXPECT_THAT(shown(usual_document(), {100, 60}, state),
              AllOf(HasSubstr("\nreplica gpu1\n"), HasSubstr("\nttft_s.p50  0.0912\n"), HasSubstr("\ngpu  -\n"),
                    HasSubstr("TTFT 2.1x of its peers"),
                    HasSubstr("r1 ok 200, wait 500ms, prefill 2.00s, decode 3.00s")));
  state.chosen = "gone";
  EXPECT_THAT(shown(usual_document(), {100, 60}, state), HasSubstr("weir tells no more of it"));
}

TEST(TopView, SaysWhatAChangeWillDo) {
  State state;
  state.chosen = "gpu1";
  state.asks = Change::drain;
  EXPECT_THAT(shown(usual_document(), {100, 24}, state),
              AllOf(HasSubstr("\nDrain gpu1? No new request goes to it.\nIts 12 requests go on to their end"),
                    HasSubstr("\nOther replicas of pool chat that are up: 1.\n"), HasSubstr("\ny drain ")));
  EXPECT_THAT(shown(document_json(replica_json("gpu1")), {100, 24}, state), HasSubstr("weir will refuse"));
  state.asks = Change::undrain;
  EXPECT_THAT(shown(usual_document(), {100, 24}, state), HasSubstr("\nUndrain gpu1? It takes requests again"));
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
