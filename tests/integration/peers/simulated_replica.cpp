#include "tests/integration/peers/simulated_replica.hpp"

#include <stdexcept>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

std::vector<std::string> command(std::uint16_t port, const std::filesystem::path& log,
                                 const std::vector<std::string>& options) {
  std::vector<std::string> words{WEIR_LAB_PROGRAM, "sim",       "--listen", "127.0.0.1:" + std::to_string(port),
                                 "--log",          log.string()};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

}  // namespace

SimulatedReplica::SimulatedReplica(const std::vector<std::string>& options, std::uint16_t port)
    : port_(port), options_(options) {
  start();
}

void SimulatedReplica::start() {
  process_.emplace(command(port_, log(), options_), directory_.path() / "output");
  look_until("the simulated replica to start", [this] {
    if (process_->wait(std::chrono::milliseconds(0)))
      throw std::runtime_error("the simulated replica ended: " + read_file(directory_.path() / "output"));
    return healthy();
  });
}

bool SimulatedReplica::healthy() const {
  try {
    return fetch(port_, get("/health"), "GET").status == 200;
  } catch (const PeerGone&) {
    return false;
  }
}

}  // namespace weir::integration
