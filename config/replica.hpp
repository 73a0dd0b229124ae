// Reads the tables of replicas: [[pool.replica]] and [[shadow.replica]], which have the same keys.
#pragma once

#include <functional>
#include <map>
#include <string>
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

  /// Errors name the table by `title`. `urls` has those of the same pool or shadow. What the table does not set is as in
  /// `otherwise`.
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

}  // namespace weir::config
