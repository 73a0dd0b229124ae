// Memories from second to second of things that have a name, such as replicas, and come and go.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "proxy/live/counts.hpp"
#include "proxy/live/now.hpp"
#include "proxy/live/requests.hpp"

namespace weir::proxy::live {

/// Finds the memory of this name, or makes one.
template <class Map>
auto& memory_in(Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found != map.end() ? found->second : map[std::string(name)];
}

/// Forgets what no second has seen since the last call: each memory has a member `seen`.
template <class Map>
void forget_unseen(Map& map) {
  std::erase_if(map, [](const auto& one) { return !one.second.seen; });
  for (auto& [name, row] : map) row.seen = false;
}

/// Ends the second of those of which no row was taken, and forgets them once nothing of theirs is of the last minute:
/// what is gone for a moment, as after two reloads, comes back with its counts. Each memory has a member rest(), which
/// ends its second and says whether something is of the last minute.
template <class Map>
void end_second_of_unseen(Map& map, std::size_t seconds) {
  for (auto& [name, memory] : map)
    if (!memory.seen) memory.seen = memory.rest(seconds);
  forget_unseen(map);
}

/// Sets the moment at which something began and the same as wall time: once, since the two clocks differ from second to
/// second.
inline void note_begin(Moment& known, Wall& wall, Moment begin, const Now& now) {
  if (known == begin) return;
  known = begin;
  wall = now.time - std::chrono::duration_cast<Wall::duration>(now.at - begin);
}

/// The requests that ended in the last minute.
struct RequestCounts {
  Minute all, failed, refused, empty;

  void add(metrics::Outcome outcome) {
    all.add(1);
    if (has_failed(outcome)) failed.add(1);
    if (outcome == metrics::Outcome::rejected) refused.add(1);
    if (outcome == metrics::Outcome::ok_empty) empty.add(1);
  }
  void end_second(std::size_t seconds) {
    for (auto* const one : {&all, &failed, &refused, &empty}) one->end_second(seconds);
  }
};

}  // namespace weir::proxy::live
