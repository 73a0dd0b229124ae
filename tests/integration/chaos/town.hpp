// What a chaos run plays in: replicas, a shadow's replica, and a weir whose settings name them. Things happen to them.
// TLS stands before one of the replicas and before the shadow's.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/chaos/clients.hpp"
#include "tests/integration/chaos/dice.hpp"
#include "tests/integration/chaos/misbehaviour.hpp"
#include "tests/integration/peers/deaf_port.hpp"
#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::chaos {

class Town {
 public:
  explicit Town(std::uint64_t seed);

  integration::WeirUnderTest& weir() { return *weir_; }
  /// Returns where clients come to weir now.
  Door door() const;
  /// From now on weir speaks TLS with its clients, and wants a key of each. Nobody asks meanwhile.
  void guards_its_door();
  /// Counts the handshakes of clients that both sides have ended well.
  std::size_t handshakes() const { return to_weir_ ? to_weir_->handshakes() + half_closing_->handshakes() : 0; }
  /// Does one of: reload, drain, undrain, scrape, look at the admin's pages, switch the shadow or the bypass, end or
  /// start a replica, at times so that its port neither accepts nor refuses meanwhile, flip a replica's health. A
  /// reload of a guarded door brings another certificate, or a wrong one.
  void something_happens();
  /// Everything is there again and is treated well: replicas run, are healthy and undrained, the shadow is on, and the
  /// bypass off.
  void becomes_quiet();
  /// Says of each kind of thing how often it happened.
  std::string happened() const;

 private:
  /// A scripted replica that can be ended and started again at its port.
  struct Place {
    Place(std::uint64_t seed, const std::string& its_name, bool speaks_tls);
    void start();
    integration::ReplicaKeys keys() const;
    std::string name;
    std::uint16_t port;
    Misbehaving how;
    std::unique_ptr<integration::ScriptedReplica> peer;
    std::optional<integration::DeafPort> deaf;  ///< It has the port, at times, while there is no peer.
    std::optional<integration::Bridge> tls;
  };

  integration::WeirSettings settings();
  void use_certificate(const std::string& cert, const std::string& key) const;
  void reload();
  integration::Response ask_admin(const std::string& bytes, std::string_view method) const;
  integration::Response post_admin(const std::string& path) const;
  void get_admin(const std::string& path) const;
  void end_or_start(Place& place);
  void end_or_start_simulated();
  void start_simulated();

  const std::uint64_t seed_;
  Dice dice_;
  const std::uint16_t admin_ = integration::free_port();
  std::list<Place> places_;
  std::unique_ptr<Place> candidate_;
  std::uint16_t simulated_port_ = integration::free_port();
  std::unique_ptr<integration::SimulatedReplica> simulated_;
  const integration::TemporaryDirectory files_;
  bool guarded_ = false;
  std::optional<integration::WeirUnderTest> weir_;
  std::optional<integration::Bridge> to_weir_, half_closing_;
  std::size_t silences_ = 0, reloads_ = 0, drains_ = 0, scrapes_ = 0, deaths_ = 0, flips_ = 0, switches_ = 0,
              bypasses_ = 0;
};

}  // namespace weir::chaos
