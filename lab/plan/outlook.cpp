#include "lab/plan/outlook.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace weir::lab::plan {

using engine::block_tokens;

Finds finds(const engine::EngineModel& model, const engine::Sequence& sequence) {
  Finds found{model.cached(sequence)};
  const auto blocks = sequence.reusable_blocks();
  for (const auto& standing : model.standing()) {
    const engine::Sequence& other = *standing.sequence;
    // The blocks of a prompt that is computed already have their names in the cache.
    if (standing.prefilled == other.prompt_tokens && standing.produced > 1) continue;
    const std::uint64_t common = engine::common_blocks(other.blocks, blocks) * block_tokens;
    if (common > std::max(found.tokens, found.common)) {
      found.ahead = other.id;
      found.common = common;
    }
  }
  return found;
}

Outlook::Outlook(const TimedEngine& engine, double now)
    : settings_(engine.model().settings()),
      pace_(engine.pace(now)),
      begins_(engine.next_step_at(now) - now),
      reserved_(engine.model().kv_reserved()) {}

void Outlook::add_running(const engine::EngineModel::Standing& standing) {
  const engine::Sequence& sequence = *standing.sequence;
  entries_.push_back({sequence.id, sequence.prompt_tokens, sequence.output_tokens, standing.prefilled,
                      standing.produced, sequence.tokens() - standing.cached});
  ++admitted_;
}

void Outlook::add(const engine::Sequence& sequence, const Finds& finds) {
  Entry& entry = entries_.emplace_back();
  entry.id = sequence.id;
  entry.prompt = sequence.prompt_tokens;
  entry.output = sequence.output_tokens;
  entry.finds = finds;
  if (!finds.ahead) return;
  const auto ahead = std::ranges::find(entries_, *finds.ahead, &Entry::id);
  if (ahead != entries_.end()) {
    entry.ahead = static_cast<std::size_t>(ahead - entries_.begin());
  } else {  // It has ended, and left what it computed.
    entry.finds.tokens = std::max(finds.tokens, finds.common);
  }
}

class Outlook::Play {
 public:
  explicit Play(const Outlook& outlook)
      : settings_(outlook.settings_),
        entries_(outlook.entries_),
        next_(outlook.admitted_),
        reserved_(outlook.reserved_),
        scale_(1e-9 * outlook.pace_ / outlook.settings_.speed),
        now_(outlook.begins_) {
    for (std::size_t i = 0; i < next_; ++i) {
      const Entry& entry = entries_[i];
      resident_ += entry.prefilled + entry.produced;
      if (entry.prefilled < entry.prompt) {
        prefilling_.push_back(i);
      } else {
        decoding_.emplace(entry.output - entry.produced, i);
      }
    }
  }

  double sum_of_times() {
    while (next_ < entries_.size() || !prefilling_.empty() || !decoding_.empty()) {
      const std::uint64_t prompt_tokens = plan();
      if (prompt_tokens > 0) {
        prefill(prompt_tokens);
      } else {
        decode();
      }
      while (!decoding_.empty() && decoding_.top().first == steps_) {
        end(decoding_.top().second);
        decoding_.pop();
      }
    }
    return sum_;
  }

 private:
  /// Fixes how much each prompt gets in the next step, and returns the sum.
  std::uint64_t plan() {
    const std::uint64_t of_step = settings_.prefill_budget;
    const std::uint64_t all = of_step - std::min<std::uint64_t>(of_step, decoding_.size());
    std::uint64_t budget = all;
    gets_.clear();
    const auto give = [&](std::size_t i) {
      gets_.push_back(std::min(budget, entries_[i].prompt - entries_[i].prefilled));
      budget -= gets_.back();
    };
    for (const std::size_t i : prefilling_) give(i);
    while (budget > 0 && admit()) give(prefilling_.back());
    return all - budget;
  }

  bool admit() {
    const std::size_t running = prefilling_.size() + decoding_.size();
    if (next_ == entries_.size() || running >= settings_.max_batch) return false;
    Entry& entry = entries_[next_];
    std::uint64_t found = entry.finds.tokens;
    if (entry.ahead) {
      const Entry& ahead = entries_[*entry.ahead];
      const std::uint64_t there = std::min(entry.finds.common, ahead.prefilled);
      found = std::max(found, there - there % block_tokens);
    }
    entry.own = entry.prompt + entry.output - found;
    if (running > 0 && reserved_ + entry.own > settings_.kv_tokens) return false;
    reserved_ += entry.own;
    entry.prefilled = found;
    resident_ += found;
    prefilling_.push_back(next_++);
    return true;
  }

  double step_takes() const {
    const std::size_t n = decoding_.size(), beyond = n - std::min<std::size_t>(n, settings_.knee);
    return static_cast<double>(settings_.step_base.count()) +
           static_cast<double>(settings_.per_decode_sequence.count()) * static_cast<double>(beyond) +
           static_cast<double>(settings_.per_kv_token.count()) * static_cast<double>(resident_);
  }

  void prefill(std::uint64_t prompt_tokens) {
    const auto token_takes = static_cast<double>(settings_.per_prefill_token.count());
    now_ += scale_ * (step_takes() + token_takes * static_cast<double>(prompt_tokens));
    ++steps_;
    resident_ += prompt_tokens + decoding_.size();
    std::size_t kept = 0;
    for (std::size_t at = 0; at < prefilling_.size(); ++at) {
      const std::size_t i = prefilling_[at];
      Entry& entry = entries_[i];
      entry.prefilled += gets_[at];
      if (entry.prefilled < entry.prompt) {
        prefilling_[kept++] = i;
      } else {  // The step that ends the prompt makes the first token.
        ++resident_;
        decoding_.emplace(steps_ + entry.output - 1, i);
      }
    }
    prefilling_.resize(kept);
  }

  /// Plays all steps up to the next end. Each of them has as many resident tokens more as there are sequences.
  void decode() {
    const std::uint64_t steps = decoding_.top().first - steps_, n = decoding_.size();
    const auto k = static_cast<double>(steps);
    const double grows = static_cast<double>(settings_.per_kv_token.count()) * static_cast<double>(n) * k * (k - 1) / 2;
    now_ += scale_ * (k * step_takes() + grows);
    steps_ += steps;
    resident_ += steps * n;
  }

  void end(std::size_t i) {
    const Entry& entry = entries_[i];
    sum_ += now_;
    resident_ -= entry.prompt + entry.output;
    reserved_ -= std::min(reserved_, entry.own);
  }

  const engine::EngineSettings& settings_;
  std::vector<Entry> entries_;
  std::size_t next_;  ///< The entry that is admitted next.
  std::uint64_t reserved_;
  const double scale_;  ///< Seconds for a nanosecond of the settings.
  double now_, sum_ = 0;
  std::uint64_t steps_ = 0, resident_ = 0;
  std::vector<std::size_t> prefilling_;
  std::vector<std::uint64_t> gets_;  ///< Tokens of the next step for each of them.
  using Ends = std::pair<std::uint64_t, std::size_t>;  ///< The step that ends an entry.
  std::priority_queue<Ends, std::vector<Ends>, std::greater<>> decoding_;
};

double Outlook::sum_of_times() const {
  if (begins_ == never) return never;
  return Play(*this).sum_of_times();
}

}  // namespace weir::lab::plan
