#include "lab/engine/engine_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "config/command_line.hpp"
#include "lab/text.hpp"

namespace weir::lab::engine {
namespace {

/// Adds a time that is given as a number of `unit`s.
void add_time(CLI::App& command, const std::string& name, nanoseconds& time, double unit, double most,
              const std::string& help) {
  const auto set = [&time, unit](double value) { time = nanoseconds(static_cast<std::int64_t>(value * unit)); };
  const auto usual = fmt::format("{:g}", static_cast<double>(time.count()) / unit);
  command.add_option_function<double>(name, set, help)->default_str(usual)->check(config::within(0.0, most));
}

}  // namespace

void add_engine_options(CLI::App& command, EngineSettings& settings) {
  command.option_defaults()->group("Engine (defaults resemble a 7B model on a mid-range GPU)");
  // CLI11 runs the options in the order in which they were added, so the preset stands before those that override it.
  std::vector<std::string> names;
  for (const EnginePreset& preset : engine_presets()) names.emplace_back(preset.name);
  const auto take_preset = [&settings](const std::string& name) { settings = *engine_preset(name); };
  command.add_option_function<std::string>("--preset", take_preset, "Simulated GPU; its values are below")
      ->check(CLI::IsMember(names));

  const auto add = [&command](const char* name, auto& target, const char* help, auto least, auto most) {
    command.add_option(name, target, help)->capture_default_str()->check(config::within(least, most));
  };
  add("--speed", settings.speed, "Divides every step time", 1e-3, 1e6);
  command.add_option("--batching", settings.batching, "continuous (default) or static")
      ->transform(config::word_of(
          std::map<std::string, Batching>{{"continuous", Batching::continuous}, {"static", Batching::static_batches}}));
  constexpr std::int64_t one = 1;
  add("--max-batch", settings.max_batch, "Sequences that run at a time", 1, 100'000);
  add("--kv-tokens", settings.kv_tokens, "Tokens that the KV cache holds", one, one << 40);
  add("--prefill-budget", settings.prefill_budget, "Tokens of one step, decode included", 1, 10'000'000);
  add_time(command, "--step-ms", settings.step_base, 1e6, 60'000, "Milliseconds of each step");
  add_time(command, "--prefill-us", settings.per_prefill_token, 1e3, 1e6,
           "Additional microseconds for each prompt token of a step");
  add_time(command, "--sequence-us", settings.per_decode_sequence, 1e3, 1e6,
           "Additional microseconds for each decoded sequence of a step beyond --knee");
  add("--knee", settings.knee, "Decoded sequences of a step that add no time", 0, 100'000);
  add_time(command, "--kv-ns", settings.per_kv_token, 1, 1e6, "Additional nanoseconds for each token in the KV cache");
  add("--jitter", settings.jitter, "Share by which step times vary", 0.0, 0.9);
  add("--speculative-tokens", settings.speculative_tokens,
      "Tokens drafted for each sequence and step; accepted tokens come in one event", 0, 64);
  command
      .add_option("--prefix-cache", settings.prefix_caching,
                  "Prefix cache: none (default); blocks, in memory that no running sequence needs, as vLLM; slots, the "
                  "last sequence in each of --max-batch slots, as llama.cpp")
      ->transform(config::word_of(std::map<std::string, PrefixCaching>{
          {"none", PrefixCaching::none}, {"blocks", PrefixCaching::blocks}, {"slots", PrefixCaching::slots}}));
  add("--acceptance", settings.acceptance, "Probability that a drafted token is right", 0.0, 1.0);
}

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
