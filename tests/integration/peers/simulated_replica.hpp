// `weir-lab sim` on a port of its own, ready, for one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/peers/process.hpp"
#include "tests/integration/peers/socket.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {

class SimulatedReplica {
 public:
  /// `options` are further ones of `weir-lab sim`.
  explicit SimulatedReplica(const std::vector<std::string>& options, std::uint16_t port = free_port());

  void kill() { process_.reset(); }
  /// Starts it again, on the same port, and waits until it is ready.
  void start();

  std::uint16_t port() const { return port_; }

  Process& process() { return *process_; }
  std::string url() const { return url_of(port_); }
  std::filesystem::path folder() const { return directory_.path(); }
  /// The truth of its requests, a line each.
  std::filesystem::path log() const { return directory_.path() / "truth.jsonl"; }

 private:
  bool healthy() const;

  TemporaryDirectory directory_;
  std::uint16_t port_;
  std::vector<std::string> options_;
  std::optional<Process> process_;
};

}  // namespace weir::integration
