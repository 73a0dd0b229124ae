#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lab/engine/engine_options.hpp"

namespace weir::lab::engine {
namespace {

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
