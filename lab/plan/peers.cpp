#include "lab/plan/peers.hpp"

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "lab/engine/random.hpp"
#include "lab/plan/outlook.hpp"

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

}  // namespace weir::lab::plan
