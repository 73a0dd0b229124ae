#include "lab/engine/engine_preset.hpp"

#include <algorithm>
#include <array>

#include "lab/text.hpp"

namespace weir::lab::engine {
namespace {

EngineSettings card(double step_ms, double prefill_us, double sequence_us, std::int64_t kv_ns,
                    std::uint64_t kv_tokens) {
  EngineSettings s;
  s.step_base = nanoseconds(static_cast<std::int64_t>(step_ms * 1e6));
  s.per_prefill_token = nanoseconds(static_cast<std::int64_t>(prefill_us * 1e3));
  s.per_decode_sequence = nanoseconds(static_cast<std::int64_t>(sequence_us * 1e3));
  s.per_kv_token = nanoseconds(kv_ns);
  s.knee = 32;
  s.max_batch = 256;
  s.kv_tokens = kv_tokens;
  return s;
}

const std::array<EnginePreset, 4> presets{{
    {"h800", card(7, 31, 70, 23, 990'000)},
    {"a800", card(10.5, 81, 100, 38, 990'000)},
    {"4090", card(18, 125, 170, 64, 110'000)},
    {"h20", card(13, 190, 180, 19, 1'240'000)},
}};

double in_ms(nanoseconds t) { return static_cast<double>(t.count()) / 1e6; }

}  // namespace

std::span<const EnginePreset> engine_presets() { return presets; }

std::optional<EngineSettings> engine_preset(std::string_view name) {
  const auto found = std::ranges::find(presets, name, &EnginePreset::name);
  if (found == presets.end()) return std::nullopt;
  return found->settings;
}

nanoseconds time_to_first_token(const EngineSettings& settings, std::uint64_t prompt_tokens) {
  EngineSettings steady = settings;
  steady.jitter = 0;
  EngineModel engine(steady, 1);
  engine.submit({1, prompt_tokens, 1});
  nanoseconds took{0};
  while (const auto step = engine.begin_step()) {
    took += *step;
    engine.end_step();
  }
  return took;
}

nanoseconds decode_step(const EngineSettings& settings, std::uint32_t batch, std::uint64_t context) {
  EngineSettings steady = settings;
  steady.jitter = 0;
  steady.max_batch = batch;
  // A single step prefills them all, whatever that costs.
  steady.prefill_budget = static_cast<std::uint32_t>(batch * context);
  steady.kv_tokens = batch * (context + 1'000);
  EngineModel engine(steady, 1);
  for (SequenceId id = 1; id <= batch; ++id) engine.submit({id, context - 1, 1'000});
  engine.begin_step();
  engine.end_step();
  return engine.begin_step().value_or(nanoseconds(0));
}

std::string describe_engine_presets() {
  std::string out =
      "preset   TTFT of 550 tokens   step of 1, 32, 64, 128 sequences   KV tokens   (simulated, 7B in 16 bit)\n";
  for (const EnginePreset& p : presets) {
    const auto step = [&p](std::uint32_t batch) { return in_ms(decode_step(p.settings, batch, 100)); };
    out += fmt::format("{:<8} {:15.1f} ms   {:8.1f} {:6.1f} {:6.1f} {:6.1f} ms   {:12}\n", std::string(p.name),
                       in_ms(time_to_first_token(p.settings, 550)), step(1), step(32), step(64), step(128),
                       p.settings.kv_tokens);
  }
  return out;
}

}  // namespace weir::lab::engine
