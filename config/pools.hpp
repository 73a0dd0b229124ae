// Reads the [[pool]] and [[pool.replica]] tables of a settings file, and checks the rules that hold between them.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/sections.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads all replicas of a file and remembers where each name was taken. Names are unique in the file. No replica may
/// be one of weir's own listeners. weir's key for a replica must not be lent to strangers unawares.
class ReplicaReading {
 public:
  ReplicaReading(const std::vector<Listener>& listeners, const Settings& settings, Report& report)
      : listeners_(listeners), server_(settings.server), report_(report) {}

  /// Errors name the table by `title`. `urls` has those of the same pool or shadow. What the table does not set is as
  /// in `otherwise`.
  Replica replica(const std::string& title, const toml::table& source, Places& urls, Replica otherwise = {});
  /// Adds a replica to the report's listing.
  void list(const Replica& replica, const std::string& within);
  /// Refuses a replica that has the name that another one's addresses may get.
  void refuse_names_of_expanded();

 private:
  void read_key(TableReader& table, Replica& replica);
  void read_expand(TableReader& table, Replica& replica);

  const std::vector<Listener>& listeners_;
  const Server& server_;
  Report& report_;
  Places names_, expanded_;
  std::map<std::string, std::string, std::less<>> titles_;  ///< Maps a name to the title of its table.
};

/// The file's [health] and [engine].
struct Defaults {
  Health health;
  EngineReading engine;
  bool clients_have_keys = false;
};

/// Reads all pools and checks their rules. Names are unique in the file. Pools are tried in order, so it is an error if
/// an earlier pool takes all requests of a later pool or model. What a pool's own [health]
/// and [engine] do not set is as in `defaults`.
std::vector<Pool> read_pools(TableReader& file, ReplicaReading& replicas, const Defaults& defaults, Report& report);

/// Adds pools and their replicas to the report's listing.
void list_pools(const std::vector<Pool>& pools, ReplicaReading& replicas, Report& report);

// Reads the [[slo]] tables of a settings file: the objectives against which the requests of a pool are measured.

/// Reads all objectives. Names are unique in the file. Each objective names one of `pools` and has at least one
/// threshold.
std::vector<Slo> read_slos(TableReader& file, const std::vector<Pool>& pools, Report& report);

/// Adds objectives to the report's listing.
void list_slos(const std::vector<Slo>& slos, Report& report);

// Reads [health] and [engine], and what a pool has in place of them.

/// Keys that the table does not set are as in `otherwise`.
Health read_health(TableReader table, Health otherwise);

/// Likewise. An engine's page is read as often as it is probed, and has as much time.
EngineReading read_engine(TableReader table, const Health& health, EngineReading otherwise);

// The words for a pool's policy and for a rollout's answers, in the settings file and in weir's log.

inline constexpr std::array<std::pair<std::string_view, Policy>, 5> policy_words{
    {{"least_queued_tokens", Policy::least_queued_tokens},
     {"round_robin", Policy::round_robin},
     {"random", Policy::random},
     {"least_requests", Policy::least_requests},
     {"power_of_two", Policy::power_of_two}}};

inline constexpr std::array<std::pair<std::string_view, OtherAnswers>, 3> other_answers_words{
    {{"look", OtherAnswers::look}, {"same", OtherAnswers::same}, {"any", OtherAnswers::any}}};

constexpr std::string_view name_of(Policy policy) {
  return std::ranges::find(policy_words, policy, &std::pair<std::string_view, Policy>::second)->first;
}

}  // namespace weir::config
