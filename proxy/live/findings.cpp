#include "proxy/live/findings.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace weir::proxy::live {

/// Takes what is said of one name. Returns false if there is nothing left to remember.
bool Findings::moves(State& state, const Rule& rule, const Case& one, const Now& now) {
  if (one.sign != Sign::fine) state.good_since.reset();
  if (one.sign == Sign::bad || one.sign == Sign::between)
    state.unheld_since.reset();
  else
    state.unheld_since = state.unheld_since.value_or(now.at);
  switch (one.sign) {
    case Sign::bad:
    case Sign::between:
      if (!state.stands && one.sign == Sign::between) return false;
      state.finding.text = one.text;
      state.finding.severity = one.severity;
      state.stands = state.stands || now.at - state.finding.since_at >= rule.begins_after;
      return true;
    case Sign::fine:
      state.good_since = state.good_since.value_or(now.at);
      return state.stands && now.at - *state.good_since < ends_after && now.at - *state.unheld_since < forgotten_after;
    case Sign::unknown:
      return state.stands && now.at - *state.unheld_since < forgotten_after;
  }
  return false;
}

std::vector<Findings::Change> Findings::tick(const Now& now) {
  std::vector<Change> changes;
  std::vector<Case> cases;
  for (const auto& rule : rules_) {
    cases.clear();
    rule.look(now, cases);
    // A name without a case is fine.
    std::set<std::string_view> told;
    for (const auto& one : cases) told.insert(one.who);
    std::vector<Case> silent;
    for (const auto& [who, state] : states_)
      if (who.first == rule.what && !told.contains(who.second)) silent.push_back({who.second, Sign::fine});
    cases.insert(cases.end(), silent.begin(), silent.end());
    for (const auto& one : cases) {
      const Who who(rule.what, one.who);
      auto found = states_.find(who);
      if (found == states_.end()) {
        if (one.sign != Sign::bad) continue;
        found = states_.emplace(who, State()).first;
        found->second.finding = {rule.what, one.who, one.severity, now.time, one.text, now.at};
      }
      auto& state = found->second;
      const bool stood = state.stands;
      const bool goes_on = moves(state, rule, one, now);
      if (state.stands && !stood) changes.push_back({true, state.finding});
      if (goes_on) continue;
      if (stood) changes.push_back({false, state.finding});
      states_.erase(found);
    }
  }
  return changes;
}

std::vector<Finding> Findings::standing() const {
  std::vector<Finding> all;
  for (const auto& [who, state] : states_)
    if (state.stands) all.push_back(state.finding);
  std::ranges::stable_sort(all, [](const Finding& a, const Finding& b) {
    const auto place = [](const Finding& one) { return std::tuple(one.severity != Severity::critical, one.since_at); };
    return place(a) < place(b);
  });
  return all;
}

}  // namespace weir::proxy::live
