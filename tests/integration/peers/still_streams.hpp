// Thousands of streams that stand still, and what that takes of threads: one for the replica, none for the clients.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/integration/peers/socket.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {

/// Answers each chat with an event and then stands still, all on one thread.
class StillReplica {
 public:
  StillReplica();
  ~StillReplica();
  StillReplica(const StillReplica&) = delete;
  StillReplica& operator=(const StillReplica&) = delete;
  std::string url() const { return url_of(listener_.port()); }

 private:
  void watch(int fd) const;
  void serve();
  void accept_all();
  void answer(int fd);

  const std::string event_, answer_to_probe_;
  const Socket listener_;
  const int set_;
  std::set<int> connections_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

/// Clients that have asked for a stream each, and read until its first event.
class StillClients {
 public:
  /// Throws std::runtime_error if one of them gets anything else.
  StillClients(std::uint16_t port, std::size_t clients, std::string_view request);

  /// Counts those whose stream ends with these words.
  std::size_t told(std::string_view words);

 private:
  std::vector<Socket> all_;
};

}  // namespace weir::integration
