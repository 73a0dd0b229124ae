#include "lab/engine/engine_model.hpp"

#include <algorithm>
#include <utility>

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

}  // namespace weir::lab::engine
