// Which machine has had which replica's name: replicas come, leave, and are renamed and moved while clients are under
// way, and what was begun goes on.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace weir::chaos {

/// Any thread uses it.
class Names {
 public:
  /// A machine has this name from now on, until the name leaves or another machine has it.
  void give(const std::string& name, const std::string& machine) {
    const std::lock_guard lock(mutex_);
    auto& one = names_[name];
    one.machines.insert(machine);
    one.is_there = true;
  }
  void leaves(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_[name].is_there = false;
    names_[name].has_left = true;
  }

  /// Returns all machines that have had the name at any time.
  std::set<std::string> machines(const std::string& name) const { return at(name).machines; }
  bool is_there(const std::string& name) const { return at(name).is_there; }
  /// A name that has left may be there again. Its counters may have begun anew.
  bool has_left(const std::string& name) const { return at(name).has_left; }
  /// Returns the names that have left and are not there.
  std::vector<std::string> gone() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [name, one] : names_)
      if (!one.is_there) all.push_back(name);
    return all;
  }
  bool any_has_left() const {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, one] : names_)
      if (one.has_left) return true;
    return false;
  }

 private:
  struct Name {
    std::set<std::string> machines;
    bool is_there = false, has_left = false;
  };
  Name at(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(name);
    return found == names_.end() ? Name() : found->second;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Name> names_;
};

}  // namespace weir::chaos
