// Traffic in which prompts repeat what earlier prompts and answers said, as conversations, agents and shared documents
// do. Each kind is drawn from a seed.
//
// Other workloads, by which bench_routing compares ways to choose a replica: routing_workloads.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lab/engine/words.hpp"
#include "lab/plan/simulation.hpp"
#include "lab/plan/traffic.hpp"

namespace weir::lab::plan {

enum class Kind : std::uint8_t {
  conversations,    ///< Closed loop: users who think, and one of 8 system prompts.
  agents,           ///< Closed loop: long prompts that grow by answers of tools, and groups of sub-agents.
  hot_prefix,       ///< Three of four requests begin with the same 3,000 tokens.
  cold_siblings,    ///< 16 requests at once share a prompt that nobody had before.
  no_reuse,         ///< No two prompts begin alike.
  long_contexts,    ///< Closed loop: some questions on each of many documents of 15,000 to 60,000 tokens.
  tenants,          ///< Conversations of two tenants that say the same under different salts.
  twice_the_cache,  ///< Documents of 2,000 tokens that are twice what all KV caches hold.
  four_times_the_cache,
  slow_replica,     ///< Conversations; one of the replicas runs at half speed.
  restart,          ///< Conversations; one of the replicas restarts in mid-run.
  flush,            ///< Conversations; one of the replicas forgets its cache in mid-run.
  join,             ///< Conversations; a fifth replica comes in mid-run.
  wrong_reports,    ///< Conversations; engines report half of what they found.
  missing_reports,  ///< Conversations; engines report nothing of it.
  reasoning,        ///< Conversations; a template leaves the thoughts of old answers out.
  mooncake,         ///< The first 600 requests of Mooncake's conversation trace, in their order.
};

inline constexpr std::array<std::pair<std::string_view, Kind>, 17> kind_words{
    {{"conversations", Kind::conversations},
     {"agents", Kind::agents},
     {"hot_prefix", Kind::hot_prefix},
     {"cold_siblings", Kind::cold_siblings},
     {"no_reuse", Kind::no_reuse},
     {"long_contexts", Kind::long_contexts},
     {"tenants", Kind::tenants},
     {"twice_the_cache", Kind::twice_the_cache},
     {"four_times_the_cache", Kind::four_times_the_cache},
     {"slow_replica", Kind::slow_replica},
     {"restart", Kind::restart},
     {"flush", Kind::flush},
     {"join", Kind::join},
     {"wrong_reports", Kind::wrong_reports},
     {"missing_reports", Kind::missing_reports},
     {"reasoning", Kind::reasoning},
     {"mooncake", Kind::mooncake}}};

struct Workload {
  std::vector<TracedRequest> requests;  ///< At one request a second, or at their own times in a closed loop.
  std::vector<engine::EngineSettings> engines;
  std::size_t absent = 0;
  engine::CacheReport cache_report = engine::CacheReport::exact;
  /// Schedules what happens to the replicas. `seconds`: how long requests come. Called before the run.
  std::function<void(Simulation& simulation, double seconds)> script{};
  std::optional<double> own_rate{};    ///< Requests a second at any load.
  std::optional<double> closed_for{};  ///< The seconds of a closed loop, whose rate the replicas make.

  std::uint64_t prompt_tokens = 0;  ///< Of all requests.
  std::uint64_t repeated = 0;       ///< Prompt tokens that a single cache without bounds would save.
  /// Requests a second that the engines that are there from the beginning answer if they save what one cache of their
  /// size would.
  double capacity = 0;

  double rate(double load) const;
  /// Returns for how many seconds requests come. The users of a closed loop go on for a third of it more, so that the
  /// last that count have company.
  double seconds(double load) const;
};

/// Puts the requests in their order, and counts what repeats and what the engines can do.
void complete(Workload& workload);
/// Puts parents before their children, and the others in the order of their arrival.
void put_in_order(std::vector<TracedRequest>& requests);

/// Throws std::runtime_error if `mooncake`, the path of that trace, is needed and cannot be used.
Workload make_workload(Kind kind, std::uint64_t seed, const std::string& mooncake);

/// Serves the workload at this share of its capacity. `setup` says by whom; engines and what becomes of them are the
/// workload's.
Results serve(const Workload& workload, Setup setup, double load);

// Makes requests whose prompts are messages: their bodies, which weir reads, and the same tokens as engines see them.
//
// Prompts are messages whose text is made from numbers: the same number is the same text, for weir as for the engines,
// which get blocks of the same numbers. A chat template adds its tokens as in lab/sim, so that a turn's prompt goes on
// as its parent and its answer did. Texts are a third shorter than their tokens suggest, and uneven: see requests_of().

using engine::Random;

enum class Role : std::uint8_t { system, user, assistant };

/// A text by its number. The same number is the same text of the same length.
struct Message {
  Role role = Role::user;
  std::uint64_t text = 0;
  std::uint64_t tokens = 1;
};

/// Gathers the requests of a workload.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random(seed), seed_(seed) {}

  Random random;
  /// Every request allows so many tokens of output, so weir is not told how long an answer will be.
  std::uint64_t max_tokens = 1024;

  Message message(Role role, std::uint64_t tokens) { return {role, ++texts_, std::max<std::uint64_t>(1, tokens)}; }
  std::uint64_t new_session() { return ++sessions_; }

  struct Turn {
    std::uint64_t session = 0;
    std::string salt{};
    std::uint64_t thoughts = 0;  ///< Tokens of the answer that no later prompt repeats.
    std::optional<std::size_t> parent{};
    double think = 0;
  };
  /// Adds a request that is answered by `answer`, and returns its place.
  std::size_t add(double at, const Turn& turn, std::span<const Message> messages, const Message& answer);

  std::vector<TracedRequest> requests;

 private:
  const std::string& words_of(const Message& message);
  std::string body_of(std::span<const Message> messages, const std::string& salt);

  std::uint64_t seed_;
  std::uint64_t texts_ = 0, sessions_ = 0;
  std::unordered_map<std::uint64_t, std::string> words_;
};

/// Returns a length around this median. `sigma` is the deviation of its logarithm.
std::uint64_t about(Random& random, double median, double sigma, double least, double most);

/// A conversation whose turns follow each other.
class Conversation {
 public:
  Conversation(Maker& maker, double at, std::vector<Message> before, Maker::Turn turn)
      : maker_(maker), at_(at), messages_(std::move(before)), turn_(std::move(turn)) {
    if (turn_.session == 0) turn_.session = maker.new_session();
  }
  /// Says something, and returns the place of the request.
  std::size_t say(std::uint64_t tokens, std::uint64_t answer_tokens, double think = 0) {
    messages_.push_back(maker_.message(Role::user, tokens));
    const Message answer = maker_.message(Role::assistant, answer_tokens);
    turn_.think = think;
    turn_.parent = maker_.add(at_, turn_, messages_, answer);
    messages_.push_back(answer);
    return *turn_.parent;
  }
  const std::vector<Message>& messages() const { return messages_; }
  double at() const { return at_; }

 private:
  Maker& maker_;
  double at_;
  std::vector<Message> messages_;
  Maker::Turn turn_;
};

/// Makes requests come one a second, by Poisson; those with a parent come with it.
class Arrivals {
 public:
  double next(Random& random, double requests) { return at_ += requests * random.exponential(); }

 private:
  double at_ = 0;
};

}  // namespace weir::lab::plan
