// Which replicas were told to drain. A drain is a replica's, by its name, and ends with the name. A member of a name
// that has `expand` has its drain by its address: answers may lack it for a while, and its number may be another one
// when it comes back. No other record says that it was taken out on purpose, so its drain is remembered for a day.
//
// The rule is pure: no clock is read. Fleet owns the drains, on the control thread.
#pragma once

#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "config/settings.hpp"
#include "metrics/moment.hpp"

namespace weir::proxy::fleet {

class Drains {
 public:
  /// A machine that was away for so long is another one: its address may have been given away.
  static constexpr std::chrono::hours remembered{24};

  /// A replica's name and no address; of a member, the name in the settings and its address.
  using Who = std::pair<std::string, std::string>;
  static Who who(const config::Replica& settings) {
    if (!settings.expand) return {settings.name, ""};
    return {settings.name.substr(0, settings.name.rfind('-')), settings.url.host};
  }

  bool empty() const { return drains_.empty(); }
  bool has(const Who& who) const { return drains_.contains(who); }
  void begin(const Who& who) { drains_.try_emplace(who); }
  void end(const Who& who) { drains_.erase(who); }
  /// Nothing is left there. Returns true the first time.
  bool note_over(const Who& who) {
    const auto drain = drains_.find(who);
    return drain != drains_.end() && !std::exchange(drain->second.is_told, true);
  }
  /// Forgets the drains of those that are gone. `expanding`: the names in the settings that have `expand`.
  void forget(const std::set<Who>& there, const std::set<std::string>& expanding, metrics::Moment now) {
    for (auto one = drains_.begin(); one != drains_.end();) {
      auto& [who, drain] = *one;
      if (there.contains(who)) {
        drain.gone_since.reset();
        ++one;
        continue;
      }
      drain.gone_since = drain.gone_since.value_or(now);
      const bool is_member = !who.second.empty() && expanding.contains(who.first);
      one = is_member && now - *drain.gone_since < remembered ? std::next(one) : drains_.erase(one);
    }
  }

 private:
  struct Drain {
    bool is_told = false;
    std::optional<metrics::Moment> gone_since{};
  };
  std::map<Who, Drain> drains_;
};

}  // namespace weir::proxy::fleet
