// The models that a replica lists and holds, and the price of a switch.
//
// The models of a replica, by its own list (GET /v1/models). A request names a model; a replica whose list lacks it
// gives way to those whose list has it (eligibility.hpp). Names are compared as hashes of their first 128 bytes, which
// is as much as weir keeps of a request's name.
//
// The rule takes for granted that the replicas of a pool list one model under one name. A name that no list has, such
// as an alias, makes no difference between replicas: engines that take any name list one, and must not starve.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

/// The hash of a model's name; 0 for a request that names none.
using ModelId = std::uint64_t;

inline ModelId model_id(std::string_view name) {
  if (name.empty()) return 0;
  const std::size_t hash = std::hash<std::string_view>()(name.substr(0, metrics::wire::longest_model));
  return hash == 0 ? 1 : hash;
}

/// Sorted. Null where the list is unknown.
using ModelList = std::shared_ptr<const std::vector<ModelId>>;

/// A replica's list, and the models that it has answered though the list lacks them. Some are loaded between two
/// readings of the list.
class ListedModels {
 public:
  /// The lessons of answers hold until the list changes. Returns true if it has.
  bool set(ModelList list) {
    if (list == list_ || (list && list_ && *list == *list_)) return false;
    list_ = std::move(list);
    answered_ = {};
    return true;
  }
  void answered(ModelId model) {
    if (!lacks(model)) return;
    answered_[next_++ % answered_.size()] = model;
  }

  bool is_known() const { return list_ != nullptr; }
  /// Returns none where the list is unknown.
  std::span<const ModelId> list() const {
    if (!list_) return {};
    return *list_;
  }
  /// True if the list is known and has the model.
  bool has(ModelId model) const { return list_ && std::ranges::binary_search(*list_, model); }
  /// True if the list is known and lacks the model, and no answer has shown that the replica has it all the same.
  bool lacks(ModelId model) const {
    return list_ && !has(model) && std::ranges::find(answered_, model) == answered_.end();
  }
  /// Both are known.
  bool differs_from(const ListedModels& other) const { return *list_ != *other.list_; }

 private:
  ModelList list_;
  std::array<ModelId, 8> answered_{};  ///< The oldest is overwritten.
  std::size_t next_ = 0;
};

// The models that replicas hold ready, and the price of a switch to another one. Engines that load models on demand
// (Ollama, llama-swap, llama.cpp's router, adapters beyond what fits) need seconds for the first token of a request
// whose model they have put away. No page tells in time which models these are, so a pool learns two things:
//
//   A replica is taken to hold the models that it was sent last. The distance of a model is how many others the replica
//   was sent since; 0 while it streams an answer of the model.
//   The time that a first token takes beyond its prompt is compared between distance 0 and each other distance. An
//   engine that holds n models shows no difference up to n - 1, and its time to load beyond.
//
// The least_queued_tokens policy adds two prices, in seconds, to what a replica's first token is expected to take: the
// load, and what others lose whose model is put away for it. So few models settle at few replicas, and a model that is
// asked for more than one replica can serve spreads once its queue costs more than the load. Engines that hold all
// models show no difference, and have no price.
//
// The time of a first token counts from the first token of the requests that were sent there before it: an engine that
// loads one model after the other keeps later requests waiting, and these would look as costly.
//
// A pool that knows nothing yet guesses, for `guessed` requests from the first switch on: `first_guess`, which decides
// between replicas that are equal otherwise, or what the longest load under way shows. Else each replica of an
// on-demand pool would load each model before anything is known. Answers that are not streamed teach nothing, so a pool
// without streams has no price after that.
//
// A Pool owns these and calls them under its mutex. Nothing allocates.

/// The models that one replica was sent last, the latest first.
class RecentModels {
 public:
  static constexpr std::size_t most = 8;
  /// Distances beside 0 to most - 1. A replica without any model before has none to put away.
  static constexpr std::size_t never = most, first = most + 1;

  struct Model {
    ModelId id = 0;
    Moment used{};                               ///< Last sent a request, or done with one.
    std::uint32_t in_flight = 0, streaming = 0;  ///< The latter have had their first token.
    bool answered = false;
    double loads = 0;  ///< The chance that the model is being loaded.
  };

  std::size_t distance(ModelId model) const;
  /// Returns how many models stand before the place of this one; all, if it has none.
  std::size_t before(ModelId model) const;
  /// Returns how many models are being loaded, as far as is known.
  double loading() const;
  bool is_there(std::size_t place) const { return place < size_; }
  const Model& operator[](std::size_t place) const { return models_[place]; }

  /// `loads`: the chance that the replica has to load the model.
  void sent(ModelId model, double loads, Moment now);
  void first_token(ModelId model);
  struct End {
    bool streamed = false;  ///< Its first token was noted.
    bool answered = false;
  };
  /// A model that the replica never answered is forgotten with its last request: clients make up names.
  void ended(ModelId model, const End& end, Moment now);

 private:
  std::size_t victim() const;

  std::array<Model, most> models_{};
  std::size_t size_ = 0;
};

/// The last first tokens of one replica.
class FirstTokens {
 public:
  /// Returns how long a first token took since the request was sent, and since the last one of those sent before it.
  double seconds_for(std::uint64_t ticket, Moment sent, Moment now) const;
  void came(std::uint64_t ticket, Moment now) { last_[next_++ % last_.size()] = {ticket, now}; }

 private:
  struct Came {
    std::uint64_t ticket = 0;
    Moment at{};
  };
  std::array<Came, 16> last_{};
  std::size_t next_ = 0;
};

/// The price of a switch in a pool, by the distance of the model.
class SwitchPrices {
 public:
  static constexpr double first_guess = 0.04;
  static constexpr std::uint32_t guessed = 64;

  /// A first token came `seconds` after it was its turn, and after what its prompt was expected to take. `idle`: the
  /// replica had last worked for the model so long before.
  void learn(std::size_t distance, double seconds, double idle, Moment now);

  /// A replica was sent a request, whose model had this distance there.
  void note_sent(std::size_t distance) {
    const bool is_switch = distance != 0 && distance != RecentModels::first;
    if (is_switch || any()) ++sent_;
  }
  /// True if a replica was sent another model than before.
  bool any() const { return sent_ > 0; }

  /// The seconds that a request loses to the load of its model, by its distance.
  using Loads = std::array<double, RecentModels::first + 1>;
  /// `under_way`: the longest load under way has taken so long. While nothing is known, it is expected to take as long
  /// again.
  Loads loads(double under_way, Moment now) const;
  /// The seconds that requests for other models are expected to lose, because the replica puts their models away.
  double eviction(const Loads& loads, const RecentModels& models, ModelId model, Moment now) const;
  /// True once enough first tokens have shown what a switch costs.
  bool known() const { return samples(0).count >= enough && samples(RecentModels::never).count >= enough; }

 private:
  static constexpr double enough = 3;

  /// The mean of the last few, and how far they lie apart.
  struct Samples {
    double count = 0, mean = 0, variance = 0;
    Moment last{};
    void add(double seconds, Moment now);
  };
  const Samples& samples(std::size_t distance) const { return samples_[distance]; }
  double full_load(double under_way, Moment now) const;

  std::array<Samples, RecentModels::most + 1> samples_{};
  std::uint64_t sent_ = 0;  ///< So many requests were sent from the first switch on.
  double usual_idle_ = 1;   ///< Seconds between two requests for a model at one replica.
};

}  // namespace weir::balancer
