#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "lab/engine/engine_model.hpp"

namespace weir::lab::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Returns settings whose step times are round numbers and do not vary, with a change.
template <class Change>
EngineSettings plain(const Change& change) {
  EngineSettings s;
  s.step_base = nanoseconds(1'000'000);
  s.per_prefill_token = nanoseconds(1'000);
  s.per_decode_sequence = nanoseconds(10'000);
  s.per_kv_token = nanoseconds(100);
  s.jitter = 0;
  change(s);
  return s;
}
EngineSettings plain() {
  return plain([](EngineSettings&) {});
}

/// Returns a model with these sequences.
EngineModel with(const EngineSettings& settings, const std::vector<Sequence>& sequences) {
  EngineModel engine(settings, 1);
  for (const Sequence& sequence : sequences) EXPECT_TRUE(engine.submit(sequence));
  return engine;
}

/// Makes a step whose tokens do not matter.
void step(EngineModel& engine) {
  engine.begin_step();
  engine.end_step();
}

struct Seen {
  nanoseconds at;
  TokenEvent event;
  bool operator==(const Seen&) const = default;
};

/// Steps until there is no work. Returns the moment of each token in simulated time.
std::vector<Seen> run_dry(EngineModel& engine, nanoseconds from = nanoseconds(0)) {
  std::vector<Seen> seen;
  while (const auto took = engine.begin_step()) {
    from += *took;
    for (const TokenEvent& e : engine.end_step()) seen.push_back({from, e});
  }
  return seen;
}

TEST(EngineModel, OneRequestTakesAPrefillStepAndOneDecodeStepAToken) {
  EngineModel engine = with(plain(), {{7, 100, 3}});
  // Prefill takes 1 ms + 100 us; then a step takes 1 ms + 10 us + 0.1 us a resident token.
  EXPECT_THAT(run_dry(engine),
              ElementsAre(Seen{nanoseconds(1'100'000), {7, 1, false}}, Seen{nanoseconds(2'120'100), {7, 2, false}},
                          Seen{nanoseconds(3'140'300), {7, 3, true}}));
  EXPECT_EQ(engine.occupancy().kv_reserved, 0u);
  EXPECT_EQ(engine.occupancy().kv_resident, 0u);
}

TEST(EngineModel, RefusesWhatCanNeverRun) {
  constexpr auto most = ~std::uint64_t{0};
  EngineModel engine = with(plain([](auto& s) { s.kv_tokens = 100; }), {{6, 60, 40}});
  for (const Sequence& never : {Sequence{1, 0, 5}, {2, 5, 0}, {3, 60, 41}, {4, 1, most}, {5, most, 1}}) {
    EXPECT_FALSE(engine.submit(never)) << never.id;
  }
  EXPECT_EQ(engine.occupancy().waiting, 1u);
}

TEST(EngineModel, ALongPromptIsPrefilledInPiecesWhileOthersDecode) {
  EngineModel engine = with(plain([](auto& s) { s.prefill_budget = 100; }), {{1, 50, 10}});
  ASSERT_TRUE(engine.begin_step());
  EXPECT_EQ(engine.last_step().prefill, 50u);
  engine.end_step();
  engine.submit({2, 250, 1});
  std::vector<std::uint64_t> pieces;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(engine.begin_step());
    pieces.push_back(engine.last_step().prefill);
    EXPECT_EQ(engine.last_step().decode, 1u);
    const auto events = engine.end_step();
    EXPECT_EQ(events.size(), step == 2 ? 2u : 1u) << "decode goes on in every step";
  }
  EXPECT_THAT(pieces, ElementsAre(99, 99, 52));
}

TEST(EngineModel, WhoDoesNotFitIntoMemoryWaits) {
  // The third would fit, but does not overtake.
  EngineModel engine = with(plain([](auto& s) { s.kv_tokens = 100; }), {{1, 60, 2}, {2, 60, 2}, {3, 10, 2}});
  engine.begin_step();
  EXPECT_EQ(engine.occupancy().running, 1u);
  EXPECT_EQ(engine.occupancy().waiting, 2u);
  engine.end_step();
  step(engine);
  engine.begin_step();
  EXPECT_EQ(engine.occupancy().running, 2u);
  engine.end_step();
}

TEST(EngineModel, AbortFreesMemoryAndPlaceAtOnce) {
  for (const Batching batching : {Batching::continuous, Batching::static_batches}) {
    const auto alone = [batching](auto& s) {
      s.batching = batching;
      s.max_batch = 1;
    };
    EngineModel engine = with(plain(alone), {{1, 10, 100}, {2, 10, 1}, {3, 10, 1}});
    engine.begin_step();
    EXPECT_TRUE(engine.abort(1));
    EXPECT_EQ(engine.occupancy().kv_reserved, 0u);
    EXPECT_THAT(engine.end_step(), IsEmpty()) << "a step under way yields nothing for who has left";
    EXPECT_TRUE(engine.abort(2)) << "waiting";
    EXPECT_FALSE(engine.abort(2));
    EXPECT_FALSE(engine.abort(99));
    const auto rest = run_dry(engine);
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest[0].event, (TokenEvent{3, 1, true}));
  }
}

/// Static batches of two.
constexpr auto pairs = [](EngineSettings& s) {
  s.batching = Batching::static_batches;
  s.max_batch = 2;
};

TEST(EngineModel, AStaticBatchEndsBeforeTheNextBegins) {
  EngineModel engine = with(plain(pairs), {{1, 10, 1}, {2, 10, 3}, {3, 10, 1}});
  std::vector<std::vector<SequenceId>> steps;
  std::vector<std::uint64_t> reserved;
  while (engine.begin_step()) {
    std::vector<SequenceId> ids;
    for (const TokenEvent& e : engine.end_step()) ids.push_back(e.id);
    steps.push_back(ids);
    reserved.push_back(engine.occupancy().kv_reserved);
  }
  EXPECT_THAT(steps, ElementsAre(ElementsAre(1, 2), ElementsAre(2), ElementsAre(2), ElementsAre(3)));
  EXPECT_THAT(reserved, ElementsAre(24, 24, 0, 0)) << "a finished sequence keeps its memory until its batch ends";
}

TEST(EngineModel, AStaticBatchPaysForItsFinishedSequences) {
  EngineModel engine = with(plain([](auto& s) {
                              s.batching = Batching::static_batches;
                              s.per_kv_token = nanoseconds(0);
                            }),
                            {{1, 10, 1}, {2, 10, 2}});
  step(engine);
  EXPECT_EQ(engine.begin_step(), nanoseconds(1'020'000));
  engine.end_step();
  EXPECT_EQ(engine.begin_step(), std::nullopt);
}

TEST(EngineModel, AStaticBatchWhoseLastSequenceIsAbortedGivesWay) {
  EngineModel engine = with(plain(pairs), {{1, 10, 1}, {2, 10, 50}, {3, 10, 1}});
  step(engine);
  engine.abort(2);
  ASSERT_TRUE(engine.begin_step());
  EXPECT_EQ(engine.end_step()[0].id, 3u);
}

TEST(EngineModel, DecodedSequencesUpToTheKneeAreFree) {
  EngineSettings s = plain();
  s.per_kv_token = nanoseconds(0);
  s.knee = 4;
  for (const std::uint32_t batch : {1u, 4u, 5u, 9u}) {
    EngineModel engine(s, 1);
    for (SequenceId id = 1; id <= batch; ++id) engine.submit({id, 10, 2});
    step(engine);
    const std::uint32_t beyond = batch > 4 ? batch - 4 : 0;
    EXPECT_EQ(engine.begin_step(), nanoseconds(1'000'000 + 10'000 * beyond)) << batch;
  }
}

TEST(EngineModel, DraftsThatAreAllRightComeInOneEvent) {
  EngineModel engine = with(plain([](auto& s) {
                              s.per_kv_token = nanoseconds(0);
                              s.speculative_tokens = 3;
                              s.acceptance = 1;
                            }),
                            {{7, 100, 10}});
  // Every decode step computes four tokens; the last one needs a single token more.
  EXPECT_THAT(
      run_dry(engine),
      ElementsAre(Seen{nanoseconds(1'100'000), {7, 1, false, 1}}, Seen{nanoseconds(2'140'000), {7, 5, false, 4}},
                  Seen{nanoseconds(3'180'000), {7, 9, false, 4}}, Seen{nanoseconds(4'220'000), {7, 10, true, 1}}));
}

TEST(EngineModel, DraftsThatAreAllWrongCostTimeAndBringNothing) {
  const auto drafts = [](auto& s) {
    s.speculative_tokens = 3;
    s.acceptance = 0;
  };
  EngineModel drafting = with(plain(drafts), {{7, 100, 20}}), plainly = with(plain(), {{7, 100, 20}});
  const auto slow = run_dry(drafting), fast = run_dry(plainly);
  ASSERT_EQ(slow.size(), 20u);
  ASSERT_EQ(fast.size(), 20u);
  EXPECT_EQ(slow.back().at - fast.back().at, nanoseconds(19 * 3 * 10'000));
}

TEST(EngineModel, AcceptedDraftsFollowTheirProbability) {
  EngineSettings s = plain();
  s.speculative_tokens = 2;
  s.acceptance = 0.6;
  s.kv_tokens = 1'000'000;
  EngineModel engine(s, 3);
  engine.submit({1, 1, 100'000});
  std::map<std::uint32_t, double> steps;
  double all = 0;
  for (const Seen& e : run_dry(engine)) {
    ++steps[e.event.tokens];
    ++all;
  }
  EXPECT_NEAR(steps[1] / all, 0.4, 0.01);
  EXPECT_NEAR(steps[2] / all, 0.6 * 0.4, 0.01);
  EXPECT_NEAR(steps[3] / all, 0.6 * 0.6, 0.01);
}

TEST(EngineModel, DoubleSpeedHalvesEveryMoment) {
  EngineSettings slow;
  slow.jitter = 0.1;
  EngineSettings fast = slow;
  fast.speed = 2 * slow.speed;
  EngineModel a(slow, 42), b(fast, 42);
  for (SequenceId id = 1; id <= 20; ++id) {
    a.submit({id, 100 * id, 10 + id});
    b.submit({id, 100 * id, 10 + id});
  }
  const auto of_a = run_dry(a), of_b = run_dry(b);
  ASSERT_EQ(of_a.size(), of_b.size());
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    EXPECT_EQ(of_a[i].event, of_b[i].event);
    EXPECT_NEAR(static_cast<double>(of_a[i].at.count()), 2.0 * static_cast<double>(of_b[i].at.count()), 1000.0);
  }
}

TEST(EngineModel, TheSameSeedGivesTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    EngineModel engine(EngineSettings{}, seed);
    for (SequenceId id = 1; id <= 30; ++id) engine.submit({id, 17 * id, id});
    return run_dry(engine);
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST(EngineModel, TheDefaultsResembleAMidRangeGpu) {
  EngineSettings s;
  s.jitter = 0;
  EngineModel engine(s, 1);
  for (SequenceId id = 1; id <= 8; ++id) engine.submit({id, 512, 200});
  const auto first = engine.begin_step();  // The step has 2048 prompt tokens.
  ASSERT_TRUE(first);
  const double prefill_rate = 2048.0 / std::chrono::duration<double>(*first).count();
  EXPECT_GT(prefill_rate, 8'000);
  EXPECT_LT(prefill_rate, 10'000);
  engine.end_step();
  std::optional<nanoseconds> decode;
  do {
    if (decode) engine.end_step();
    decode = engine.begin_step();
  } while (engine.last_step().prefill > 0);
  ASSERT_EQ(engine.last_step().decode, 8u);
  EXPECT_GT(*decode, nanoseconds(18'000'000));
  EXPECT_LT(*decode, nanoseconds(22'000'000));
}

/// Sequences arrive and leave at any time. Each token comes once and in order, limits hold, and the end is empty.
class EngineModelAtRandom : public testing::TestWithParam<std::tuple<Batching, std::uint64_t, std::uint32_t>> {};

TEST_P(EngineModelAtRandom, LosesAndInventsNothing) {
  const auto [batching, seed, drafts] = GetParam();
  EngineSettings s;
  s.speculative_tokens = drafts;
  s.batching = batching;
  s.max_batch = 7;
  s.kv_tokens = 2'000;
  s.prefill_budget = 128;
  EngineModel engine(s, seed);
  Random random(seed);
  std::map<SequenceId, Sequence> submitted;
  std::map<SequenceId, std::uint64_t> produced;
  std::map<SequenceId, bool> aborted;
  SequenceId next = 1, begun = 0;
  for (int round = 0; round < 3'000; ++round) {
    if (round < 2'000 && random.below(3) == 0) {
      const Sequence q{next++, 1 + random.below(600), 1 + random.below(40)};
      ASSERT_TRUE(engine.submit(q));
      submitted[q.id] = q;
    }
    const bool stepping = engine.begin_step().has_value();
    if (next > 1 && random.below(20) == 0) {
      const SequenceId id = 1 + random.below(next - 1);
      const bool unfinished = produced[id] < submitted[id].output_tokens && !aborted[id];
      ASSERT_EQ(engine.abort(id), unfinished);
      if (unfinished) aborted[id] = true;
    }
    ASSERT_LE(engine.occupancy().kv_reserved, s.kv_tokens);
    ASSERT_LE(engine.occupancy().kv_resident, engine.occupancy().kv_reserved);
    ASSERT_LE(engine.occupancy().running, s.max_batch);
    if (batching == Batching::continuous) {
      ASSERT_LE(engine.last_step().prefill + engine.last_step().decode, s.prefill_budget);
    }
    if (!stepping) continue;
    for (const TokenEvent& e : engine.end_step()) {
      ASSERT_FALSE(aborted[e.id]);
      if (produced[e.id] == 0) ASSERT_GT(e.id, std::exchange(begun, e.id)) << "prompts are served as they came";
      ASSERT_GE(e.tokens, 1u);
      ASSERT_LE(e.tokens, 1u + drafts);
      ASSERT_EQ(e.index, produced[e.id] += e.tokens);
      ASSERT_EQ(e.last, e.index == submitted[e.id].output_tokens);
    }
  }
  for (const Seen& e : run_dry(engine)) {
    ASSERT_FALSE(aborted[e.event.id]);
    produced[e.event.id] += e.event.tokens;
  }
  for (const auto& [id, q] : submitted) {
    EXPECT_TRUE(aborted[id] || produced[id] == q.output_tokens) << "sequence " << id;
  }
  EXPECT_EQ(engine.occupancy().kv_reserved, 0u);
  EXPECT_EQ(engine.occupancy().kv_resident, 0u);
  EXPECT_EQ(engine.occupancy().waiting, 0u);
  EXPECT_EQ(engine.occupancy().running, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineModelAtRandom,
                         testing::Combine(testing::Values(Batching::continuous, Batching::static_batches),
                                          testing::Values(1, 2, 3), testing::Values(0, 4)));

using testing::HasSubstr;

double ms(nanoseconds t) { return static_cast<double>(t.count()) / 1e6; }

EngineSettings preset(std::string_view name) { return engine_preset(name).value(); }

/// Checks that the values of `names` under `figure` grow from one to the next, by a tenth at least.
template <class Figure>
void expect_rising(const std::vector<std::string_view>& names, const Figure& figure, const std::string& what) {
  for (std::size_t i = 1; i < names.size(); ++i) {
    EXPECT_GT(figure(preset(names[i])), 1.1 * figure(preset(names[i - 1])))
        << what << ": " << names[i] << " after " << names[i - 1];
  }
}

TEST(EnginePreset, TimesHaveTheOrderOfTheCards) {
  for (const std::uint64_t prompt : {200u, 550u, 2'000u, 8'000u}) {
    expect_rising(
        {"h800", "a800", "4090", "h20"}, [&](const EngineSettings& s) { return ms(time_to_first_token(s, prompt)); },
        "prompt of " + std::to_string(prompt));
  }
  for (const std::uint32_t batch : {1u, 8u, 32u, 64u, 128u}) {
    expect_rising(
        {"h800", "a800", "h20", "4090"}, [&](const EngineSettings& s) { return ms(decode_step(s, batch, 500)); },
        "batch of " + std::to_string(batch));
  }
}

TEST(EnginePreset, ADecodeStepIsFlatToThirtyTwoSequencesAndBendsBeyond) {
  for (const EnginePreset& p : engine_presets()) {
    const auto step = [&](std::uint32_t batch) { return ms(decode_step(p.settings, batch, 100)); };
    for (const std::uint32_t batch : {2u, 4u, 8u, 16u, 32u}) EXPECT_LT(step(batch), 1.03 * step(1)) << p.name;
    EXPECT_GT(step(64), 1.2 * step(32)) << p.name;
    EXPECT_GT(step(128), 1.6 * step(32)) << p.name;
    EXPECT_NEAR((step(128) - step(64)) / (step(64) - step(32)), 2.0, 0.05) << p.name << ": a straight line beyond";
    EXPECT_GT(128 / step(128), 64 / step(64)) << p.name << ": a larger batch still brings more tokens a second";
  }
}

TEST(EnginePreset, PrefillLatencyIsLinearInTheBatch) {
  for (const EnginePreset& p : engine_presets()) {
    const auto prefill = [&](std::uint64_t batch) { return ms(time_to_first_token(p.settings, 500 * batch)); };
    const double each = (prefill(32) - prefill(4)) / 28;
    for (const std::uint64_t batch : {4u, 8u, 16u, 32u}) {
      const double on_the_line = prefill(4) + each * (static_cast<double>(batch) - 4);
      EXPECT_NEAR(prefill(batch) / on_the_line, 1.0, 0.02) << p.name << " " << batch;
    }
  }
}

EngineSettings parsed(const std::string& arguments) {
  CLI::App app;
  EngineSettings settings;
  add_engine_options(app, settings);
  app.parse(arguments);
  return settings;
}

TEST(EngineOptions, OverrideThePresetWhereverItStands) {
  EXPECT_EQ(parsed("").step_base, EngineSettings().step_base);
  EXPECT_EQ(parsed("").knee, EngineSettings().knee);
  const EngineSettings h20 = preset("h20");
  for (const std::string line : {"--preset h20 --step-ms 2.5 --knee 3 --max-batch 9 --speculative-tokens 4",
                                 "--max-batch 9 --knee 3 --speculative-tokens 4 --step-ms 2.5 --preset h20"}) {
    const EngineSettings s = parsed(line);
    EXPECT_EQ(s.step_base, nanoseconds(2'500'000));
    EXPECT_EQ(s.knee, 3u);
    EXPECT_EQ(s.max_batch, 9u);
    EXPECT_EQ(s.speculative_tokens, 4u);
    EXPECT_EQ(s.per_prefill_token, h20.per_prefill_token);
    EXPECT_EQ(s.kv_tokens, h20.kv_tokens);
  }
  EXPECT_FALSE(engine_preset("h900"));
  EXPECT_THROW(parsed("--preset h900"), CLI::ParseError);
}

TEST(EnginePreset, TheHelpListsAllOfThemAndSaysThatTheyAreSimulated) {
  const std::string text = describe_engine_presets();
  EXPECT_THAT(text, HasSubstr("simulated"));
  for (const EnginePreset& p : engine_presets()) EXPECT_THAT(text, HasSubstr("\n" + std::string(p.name) + " "));
}

}  // namespace
}  // namespace weir::lab::engine
