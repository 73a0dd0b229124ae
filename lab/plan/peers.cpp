#include "lab/plan/peers.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "lab/engine/words.hpp"

namespace weir::lab::plan {
namespace {

std::uint64_t hash_of(std::uint64_t a, std::uint64_t b) { return engine::Random(a * 0x9e3779b97f4a7c15u + b).next(); }

std::size_t fewest_requests(const Fleet& fleet) {
  return *std::ranges::min_element(fleet.candidates, {}, [&](std::size_t r) { return fleet.in_flight[r]; });
}

bool is_candidate(const Fleet& fleet, std::size_t replica) {
  return std::ranges::find(fleet.candidates, replica) != fleet.candidates.end();
}

/// The names of blocks depend on all that is before them, so the tree needs no edges.
class CacheAware final : public Router {
 public:
  explicit CacheAware(std::size_t replicas) : sizes_(replicas) {}

  std::size_t choose(std::size_t, const TracedRequest& request, const Fleet& fleet) override {
    evict(fleet.now);
    const std::size_t chosen = pick(request.text_blocks(), fleet);
    for (const std::uint64_t name : request.text_blocks()) {
      const auto [tenant, fresh] = tree_[name].insert_or_assign(chosen, ++clock_);
      if (fresh) ++sizes_[chosen];
    }
    return chosen;
  }

 private:
  static constexpr double evicts_every = 120;
  static constexpr std::size_t most_blocks = (std::size_t{1} << 26) / (4 * engine::block_tokens);

  std::size_t pick(std::span<const std::uint64_t> text, const Fleet& fleet) const {
    const auto load = [&](std::size_t r) { return fleet.in_flight[r]; };
    const auto [least, most] = std::ranges::minmax_element(fleet.candidates, {}, load);
    if (load(*most) - load(*least) > 64 && load(*most) > 1.5 * load(*least)) return *least;
    std::size_t matched = 0;
    std::optional<std::size_t> holder;
    for (; matched < text.size(); ++matched) {
      const auto node = tree_.find(text[matched]);
      if (node == tree_.end() || node->second.empty()) break;
      holder = node->second.begin()->first;
    }
    if (holder && is_candidate(fleet, *holder) &&
        static_cast<double>(matched) > 0.3 * static_cast<double>(text.size())) {
      return *holder;
    }
    return *std::ranges::min_element(fleet.candidates, {}, [this](std::size_t r) { return sizes_[r]; });
  }

  void evict(double now) {
    if (now < evicts_at_) return;
    evicts_at_ = now + evicts_every;
    for (std::size_t r = 0; r < sizes_.size(); ++r) {
      if (sizes_[r] <= most_blocks) continue;
      std::vector<std::pair<std::uint64_t, std::uint64_t>> used;  // When, and which.
      for (const auto& [name, tenants] : tree_)
        if (const auto tenant = tenants.find(r); tenant != tenants.end()) used.emplace_back(tenant->second, name);
      std::ranges::sort(used);
      used.resize(sizes_[r] - most_blocks);
      for (const auto& [when, name] : used) tree_[name].erase(r);
      sizes_[r] = most_blocks;
    }
  }

  std::unordered_map<std::uint64_t, std::map<std::size_t, std::uint64_t>> tree_;  ///< By block: replica, last use.
  std::vector<std::size_t> sizes_;                                                ///< Blocks.
  std::uint64_t clock_ = 0;
  double evicts_at_ = evicts_every;
};

class BoundedHash final : public Router {
 public:
  explicit BoundedHash(std::size_t replicas) {
    for (std::size_t r = 0; r < replicas; ++r)
      for (std::uint64_t point = 0; point < points; ++point) ring_.emplace(hash_of(r + 1, point), r);
  }

  std::size_t choose(std::size_t, const TracedRequest& request, const Fleet& fleet) override {
    double requests = 1;
    for (const std::size_t r : fleet.candidates) requests += fleet.in_flight[r];
    const double most = std::ceil(1.25 * requests / static_cast<double>(fleet.candidates.size()));
    auto at = ring_.lower_bound(hash_of(0, request.session));
    for (std::size_t seen = 0; seen < ring_.size(); ++seen, ++at) {
      if (at == ring_.end()) at = ring_.begin();
      if (is_candidate(fleet, at->second) && fleet.in_flight[at->second] + 1 <= most) return at->second;
    }
    return fewest_requests(fleet);
  }

 private:
  static constexpr std::uint64_t points = 100;
  std::map<std::uint64_t, std::size_t> ring_;
};

class Sticky final : public Router {
 public:
  std::size_t choose(std::size_t, const TracedRequest& request, const Fleet& fleet) override {
    const auto known = replica_of_.find(request.session);
    if (known != replica_of_.end() && is_candidate(fleet, known->second)) return known->second;
    return replica_of_[request.session] = fewest_requests(fleet);
  }

 private:
  std::unordered_map<std::uint64_t, std::size_t> replica_of_;
};

/// Books of the uncached tokens that replicas have not finished.
class Uncached {
 public:
  explicit Uncached(std::size_t replicas) : left_(replicas) {}
  double left(std::size_t replica) const { return left_[replica]; }
  void take(std::size_t i, std::size_t replica, double tokens) {
    of_[i] = {replica, tokens};
    left_[replica] += tokens;
  }
  void give_back(std::size_t i) {
    const auto held = of_.extract(i);
    if (!held.empty()) left_[held.mapped().first] -= held.mapped().second;
  }

 private:
  std::vector<double> left_;
  std::unordered_map<std::size_t, std::pair<std::size_t, double>> of_;
};

class TokenLoad final : public Router {
 public:
  explicit TokenLoad(std::span<const engine::EngineSettings> engines) : uncached_(engines.size()) {
    for (const auto& settings : engines) believed_.emplace_back(settings.kv_tokens / page_tokens);
  }

  std::size_t choose(std::size_t i, const TracedRequest& request, const Fleet& fleet) override {
    const auto pages = pages_of(request.prompt_blocks());
    const auto prompt = static_cast<double>(request.prompt_tokens);
    std::vector<std::pair<std::size_t, double>> hits;
    bool some = false;
    for (const std::size_t r : fleet.candidates) {
      const double hit = std::min(1.0, static_cast<double>(believed_[r].found(pages) * page_tokens) / prompt);
      hits.emplace_back(r, hit);
      some = some || hit >= least_hit;
    }
    if (some) std::erase_if(hits, [](const auto& one) { return one.second < least_hit; });
    const auto cost = [&](const std::pair<std::size_t, double>& one) {
      return std::pair(uncached_.left(one.first) + prompt * (1 - one.second), fleet.in_flight[one.first]);
    };
    const auto [chosen, hit] = *std::ranges::min_element(hits, {}, cost);
    uncached_.take(i, chosen, prompt * (1 - hit));
    believed_[chosen].use(pages);
    return chosen;
  }
  void first_token(std::size_t i) override { uncached_.give_back(i); }
  void ended(std::size_t i) override { uncached_.give_back(i); }

 private:
  static constexpr double least_hit = 0.8;
  static constexpr std::uint64_t page_tokens = 64;

  static std::vector<std::uint64_t> pages_of(std::span<const std::uint64_t> text) {
    constexpr std::size_t blocks = page_tokens / engine::block_tokens;
    std::vector<std::uint64_t> pages;
    for (std::size_t end = blocks; end <= text.size(); end += blocks) pages.push_back(text[end - 1]);
    return pages;
  }

  class Lru {
   public:
    explicit Lru(std::size_t most) : most_(most) {}
    std::size_t found(std::span<const std::uint64_t> pages) const {
      std::size_t n = 0;
      while (n < pages.size() && places_.contains(pages[n])) ++n;
      return n;
    }
    /// Uses the last page first, so that the beginning outlives it.
    void use(std::span<const std::uint64_t> pages) {
      for (std::size_t i = pages.size(); i > 0; --i) {
        const auto [place, fresh] = places_.try_emplace(pages[i - 1]);
        if (!fresh) order_.erase(place->second);
        place->second = order_.insert(order_.end(), pages[i - 1]);
      }
      while (order_.size() > most_) {
        places_.erase(order_.front());
        order_.pop_front();
      }
    }

   private:
    std::size_t most_;
    std::list<std::uint64_t> order_;
    std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
  };

  std::vector<Lru> believed_;
  Uncached uncached_;
};

class Oracle final : public Router {
 public:
  std::size_t choose(std::size_t i, const TracedRequest& request, const Fleet& fleet) override {
    const engine::Sequence sequence{i, request.prompt_tokens, request.output_tokens, request.blocks};
    std::optional<std::size_t> chosen;
    double least = never;
    Finds of_chosen;
    for (const std::size_t r : fleet.candidates) {
      const TimedEngine& engine = fleet.engine(r);
      const Finds found = finds(engine.model(), sequence);
      Outlook outlook(engine, fleet.now, [this](engine::SequenceId id) { return waiting_[id]; });
      const double without = outlook.sum_of_times();
      outlook.add(sequence, found);
      const double grows = without == never ? never : outlook.sum_of_times() - without;
      if (chosen && grows >= least) continue;
      chosen = r;
      least = grows;
      of_chosen = found;
    }
    waiting_[i] = of_chosen;
    return *chosen;
  }
  void first_token(std::size_t i) override { waiting_.erase(i); }
  void ended(std::size_t i) override { waiting_.erase(i); }

 private:
  std::unordered_map<engine::SequenceId, Finds> waiting_;
};

}  // namespace

std::unique_ptr<Router> make_router(Peer peer, std::span<const engine::EngineSettings> engines) {
  switch (peer) {
    case Peer::cache_aware:
      return std::make_unique<CacheAware>(engines.size());
    case Peer::bounded_hash:
      return std::make_unique<BoundedHash>(engines.size());
    case Peer::sticky:
      return std::make_unique<Sticky>();
    case Peer::token_load:
      return std::make_unique<TokenLoad>(engines);
    case Peer::oracle:
      break;
  }
  return std::make_unique<Oracle>();
}

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
      reserved_(engine.model().occupancy().kv_reserved) {}

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
  std::vector<std::uint64_t> gets_;                    ///< Tokens of the next step for each of them.
  using Ends = std::pair<std::uint64_t, std::size_t>;  ///< The step that ends an entry.
  std::priority_queue<Ends, std::vector<Ends>, std::greater<>> decoding_;
};

double Outlook::sum_of_times() const {
  if (begins_ == never) return never;
  return Play(*this).sum_of_times();
}

}  // namespace weir::lab::plan
