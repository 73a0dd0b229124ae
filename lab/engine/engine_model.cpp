#include "lab/engine/engine_model.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/command_line.hpp"
#include "lab/text.hpp"

namespace weir::lab::engine {

EngineModel::EngineModel(const EngineSettings& settings, std::uint64_t seed)
    : settings_(settings),
      random_(seed),
      memory_(make_kv_memory(settings.prefix_caching, settings.kv_tokens, settings.max_batch, settings.hit_tokens)) {}

bool EngineModel::submit(const Sequence& sequence) {
  if (sequence.prompt_tokens == 0 || sequence.output_tokens == 0) return false;
  // The sum may overflow, so each length is compared alone first.
  if (sequence.prompt_tokens > settings_.kv_tokens || sequence.output_tokens > settings_.kv_tokens) return false;
  if (!memory_->could_fit(sequence)) return false;
  waiting_.push_back(sequence);
  return true;
}

bool EngineModel::abort(SequenceId id) {
  const auto queued = std::ranges::find(waiting_, id, &Sequence::id);
  if (queued != waiting_.end()) {
    waiting_.erase(queued);
    return true;
  }
  const auto running = std::ranges::find_if(running_, [id](const Running& r) { return r.sequence.id == id; });
  if (running == running_.end()) return false;
  const bool known = !running->finished();  // Static batches keep finished sequences; for the caller they are gone.
  memory_->release(running->sequence);
  running_.erase(running);
  return known;
}

bool EngineModel::admit_next() {
  if (waiting_.empty() || running_.size() >= settings_.max_batch) return false;
  const auto found = memory_->admit(waiting_.front());
  if (!found) return false;
  Running& admitted = running_.emplace_back();
  admitted.sequence = std::move(waiting_.front());
  waiting_.pop_front();
  admitted.cached = admitted.prefilled = *found;
  return true;
}

void EngineModel::plan_continuous() {
  std::uint64_t budget = settings_.prefill_budget;
  for (Running& r : running_) {
    if (r.prefilled < r.sequence.prompt_tokens) continue;
    r.decode_now = true;
    step_.decode += decode_width();
    budget -= std::min(budget, decode_width());
  }
  const auto prefill = [&](Running& r) {
    r.prefill_now = std::min(budget, r.sequence.prompt_tokens - r.prefilled);
    step_.prefill += r.prefill_now;
    budget -= r.prefill_now;
  };
  for (Running& r : running_) {
    if (r.prefilled < r.sequence.prompt_tokens) prefill(r);
  }
  while (budget > 0 && admit_next()) prefill(running_.back());
}

void EngineModel::plan_static() {
  if (running_.empty()) {
    while (admit_next()) {
      Running& r = running_.back();
      r.prefill_now = r.sequence.prompt_tokens - r.prefilled;
      step_.prefill += r.prefill_now;
    }
    return;
  }
  for (Running& r : running_) {
    if (r.finished()) continue;
    r.decode_now = true;
    step_.decode += decode_width();
  }
}

nanoseconds EngineModel::step_time() {
  const bool all_pay = settings_.batching == Batching::static_batches && step_.prefill == 0;
  const std::uint64_t computed = all_pay ? running_.size() * decode_width() : step_.decode;
  const std::uint64_t decoding = computed - std::min<std::uint64_t>(computed, settings_.knee);
  const double work = static_cast<double>(settings_.step_base.count()) +
                      static_cast<double>(settings_.per_prefill_token.count()) * static_cast<double>(step_.prefill) +
                      static_cast<double>(settings_.per_decode_sequence.count()) * static_cast<double>(decoding) +
                      static_cast<double>(settings_.per_kv_token.count()) * static_cast<double>(kv_resident());
  const double noise = 1.0 + settings_.jitter * (2.0 * random_.uniform() - 1.0);
  return nanoseconds(std::max<std::int64_t>(1, static_cast<std::int64_t>(work * noise / settings_.speed)));
}

std::uint64_t EngineModel::accepted_drafts() {
  std::uint64_t n = 0;
  while (n < settings_.speculative_tokens && random_.uniform() < settings_.acceptance) ++n;
  return n;
}

std::optional<nanoseconds> EngineModel::begin_step() {
  step_ = {};
  // If all unfinished sequences of a batch were aborted between two steps, the batch has ended too.
  release_finished();
  if (settings_.batching == Batching::continuous) {
    plan_continuous();
  } else {
    plan_static();
  }
  if (running_.empty()) return std::nullopt;
  return step_time();
}

std::span<const TokenEvent> EngineModel::end_step() {
  events_.clear();
  for (Running& r : running_) {
    r.prefilled += r.prefill_now;
    // The step that ends the prompt makes the first token.
    const bool prompt_done = r.prefill_now > 0 && r.prefilled == r.sequence.prompt_tokens;
    if (r.decode_now || prompt_done) {
      const std::uint64_t left = r.sequence.output_tokens - r.produced;
      const std::uint64_t made = std::min(left, 1 + (r.decode_now ? accepted_drafts() : 0));
      r.produced += made;
      events_.push_back({r.sequence.id, r.produced, r.finished(), static_cast<std::uint32_t>(made), r.cached});
    }
    if (r.prefill_now > 0 || r.decode_now) memory_->computed(r.sequence, r.computed());
    r.prefill_now = 0;
    r.decode_now = false;
  }
  release_finished();
  return events_;
}

void EngineModel::release_finished() {
  const auto finished = [](const Running& r) { return r.finished(); };
  if (settings_.batching == Batching::static_batches && !std::ranges::all_of(running_, finished)) return;
  std::erase_if(running_, [&](const Running& r) {
    if (!r.finished()) return false;
    memory_->release(r.sequence);
    return true;
  });
}

std::vector<EngineModel::Standing> EngineModel::standing() const {
  std::vector<Standing> all;
  all.reserve(running_.size() + waiting_.size());
  for (const Running& r : running_) {
    const std::uint64_t prefilled = r.prefilled + r.prefill_now;
    const bool prompt_done = r.prefill_now > 0 && prefilled == r.sequence.prompt_tokens;
    const std::uint64_t produced = r.produced + (r.decode_now || prompt_done ? 1 : 0);
    if (produced < r.sequence.output_tokens) all.push_back({&r.sequence, true, prefilled, produced, r.cached});
  }
  for (const Sequence& sequence : waiting_) all.push_back({&sequence});
  return all;
}

EngineModel::Occupancy EngineModel::occupancy() const {
  const auto running = std::ranges::count_if(running_, [](const Running& r) { return !r.finished(); });
  return {waiting_.size(), static_cast<std::size_t>(running), kv_resident(), memory_->reserved()};
}

std::uint64_t EngineModel::kv_resident() const {
  std::uint64_t sum = 0;
  for (const Running& r : running_) sum += r.resident();
  return sum;
}

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
