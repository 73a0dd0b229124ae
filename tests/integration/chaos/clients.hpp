// The clients of a chaos run: some read to the end, some leave in the middle, some send what weir must refuse. Each
// notes what became of each of its requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/chaos/names.hpp"

namespace weir::chaos {

/// Where clients come to weir.
struct Door {
  std::string name;  ///< The ids of requests begin with it.
  std::uint16_t port = 0;
  std::uint16_t half_closing_port = 0;  ///< A client that comes there may end its direction and read on.
  const Names& names;                   ///< Clients know by them whose bytes an answer has.
  std::vector<std::string> keys = {};   ///< Any of these opens it; without keys it stands open.
};

/// A request as its client knows it.
struct Seen {
  enum class End : std::uint8_t {
    whole,    ///< Status and body came whole.
    cut,      ///< The body ended before its framing said so.
    left,     ///< The client left.
    nothing,  ///< The connection ended without an answer.
  };
  enum class Key : std::uint8_t { right, wrong, none };
  std::string id;
  Key key = Key::right;  ///< `right` also where no key is needed.
  End end = End::nothing;
  unsigned status = 0;
  std::string replica;            ///< The x-weir-replica; "" if there was none.
  std::string weir_id;            ///< The x-weir-id.
  std::size_t on_connection = 0;  ///< 1 for the first request of a connection.
  bool complete = false;          ///< A whole stream with its end marker, every byte of which is the replica's.
  bool wrong = false;             ///< An answer that claims to be complete, and is not what the replica sent.
  bool error = false;             ///< An error event is its last but for the marker.
  bool marked = false;            ///< The end marker is its last.
  bool half_closed = false;       ///< The client ended its direction before the answer.
  std::size_t bytes = 0;
};

class Clients {
 public:
  Clients(std::uint64_t seed, Door door, std::size_t clients);
  ~Clients() { stop(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  /// Each client finishes what it has begun.
  void stop();
  /// Returns what all of them saw. They have been stopped.
  const std::vector<Seen>& seen() const { return seen_; }
  /// Says what went wrong that is no answer at all, such as a wait without end.
  const std::vector<std::string>& troubles() const { return troubles_; }

 private:
  void ask_all_the_time(std::size_t number);

  const std::uint64_t seed_;
  const Door door_;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::vector<Seen> seen_;
  std::vector<std::string> troubles_;
  std::vector<std::thread> threads_;
};

}  // namespace weir::chaos
