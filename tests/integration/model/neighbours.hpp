// The well-behaved clients of the pool "beside": each asks again and again, from an address and with a key of its own,
// beside a client, a request or a replica that a step treats otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/model/model.hpp"
#include "tests/integration/peers/http_client.hpp"

namespace weir::model {

/// A request as its client saw it.
struct Seen {
  unsigned client = 0;
  integration::Clock::time_point at;  ///< The moment of its end.
  unsigned status = 0;                ///< 0: no answer.
  std::string replica, flaw;          ///< No flaw: "".
};

class Neighbours {
 public:
  /// The odd clients have the numbers behind those of the well-behaved.
  static constexpr unsigned clients = 4, odd_clients = 8;
  static Key key(unsigned client) { return {.name = "beside" + std::to_string(client)}; }
  /// Sends a request as this client, and returns the answer to it.
  static integration::Response ask(std::uint16_t port, bool with_key, unsigned client, const std::string& target,
                                   const std::string& body);

  Neighbours(std::uint16_t port, bool with_keys);
  ~Neighbours() { end(); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// Waits for the ends of the requests under way, and asks no more.
  void end();
  std::vector<Seen> seen() const;

 private:
  void run(std::uint16_t port, bool with_key, unsigned client);

  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;
  std::vector<Seen> seen_;
  std::vector<std::thread> threads_;
};

}  // namespace weir::model
