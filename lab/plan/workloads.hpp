// Traffic in which prompts repeat what earlier prompts and answers said, as conversations, agents and shared documents
// do. Each kind is drawn from a seed.
//
// Other workloads, by which bench_routing compares ways to choose a replica: routing_workloads.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/plan/simulation.hpp"

namespace weir::lab::plan {

enum class Kind : std::uint8_t {
  conversations,   ///< Closed loop: users who think, and one of 8 system prompts.
  agents,          ///< Closed loop: long prompts that grow by answers of tools, and groups of sub-agents.
  hot_prefix,      ///< Three of four requests begin with the same 3,000 tokens.
  cold_siblings,   ///< 16 requests at once share a prompt that nobody had before.
  no_reuse,        ///< No two prompts begin alike.
  long_contexts,   ///< Closed loop: some questions on each of many documents of 15,000 to 60,000 tokens.
  tenants,         ///< Conversations of two tenants that say the same under different salts.
  twice_the_cache, ///< Documents of 2,000 tokens that are twice what all KV caches hold.
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

}  // namespace weir::lab::plan
