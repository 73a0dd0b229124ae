// A chaos run plays in a town: machines, a shadow's replica, and a weir whose settings name them. Things happen to
// them. TLS stands before two of the machines and before the shadow's.
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
#include "tests/integration/chaos/names.hpp"
#include "tests/integration/peers/deaf_port.hpp"
#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::chaos {

class Town {
 public:
  explicit Town(std::uint64_t seed);

  integration::WeirUnderTest& weir() { return *weir_; }
  const integration::WeirUnderTest& weir() const { return *weir_; }
  /// Returns where clients come to weir now.
  Door door() const;
  /// From now on weir speaks TLS with its clients, and wants a key of each. Nobody asks meanwhile.
  void guards_its_door();
  /// From now on a reload may add, remove and rename replicas, and move them to other machines.
  void changes_its_replicas() { changes_ = true; }
  const Names& names() const { return names_; }
  /// Counts the handshakes of clients that both sides have ended well.
  std::size_t handshakes() const { return to_weir_ ? to_weir_->handshakes() + half_closing_->handshakes() : 0; }
  /// Does one of: reload, drain, undrain, scrape, look at the admin's pages, switch the shadow or the bypass, end or
  /// start a replica, at times so that its port neither accepts nor refuses meanwhile, flip a replica's health. A
  /// reload of a guarded door brings another certificate, or a wrong one.
  void something_happens();
  /// Everything is there again and is treated well: machines run, are healthy and undrained, the shadow is on, and the
  /// bypass off; and weir has the settings that were written last.
  void becomes_quiet();
  /// Machines misbehave again.
  void becomes_wild();
  /// Says of each kind of thing how often it happened.
  std::string happened() const;

 private:
  /// A machine whose scripted replica can be ended and started again at its port.
  struct Place {
    Place(std::uint64_t seed, const std::string& its_label, bool speaks_tls);
    void start();
    integration::ReplicaKeys keys() const;
    std::string label;
    std::string name;  ///< The replica's in the settings; "" if they have none here.
    std::uint16_t port;
    Misbehaving how;
    std::unique_ptr<integration::ScriptedReplica> peer;
    std::optional<integration::DeafPort> deaf;  ///< A deaf port, at times, while there is no peer.
    std::optional<integration::Bridge> tls;
  };

  integration::WeirSettings settings();
  void use_certificate(const std::string& cert, const std::string& key) const;
  std::vector<Place*> all_places();
  void give_name(Place& place, const std::string& name);
  void change_replicas();
  void reload();
  void reload_at_last();
  void end_or_start(Place& place);
  void end_or_start_simulated();
  void start_simulated();

  Dice dice_;
  const std::uint16_t admin_ = integration::free_port();
  std::list<Place> places_;
  std::unique_ptr<Place> candidate_;
  std::uint16_t simulated_port_ = integration::free_port();
  std::unique_ptr<integration::SimulatedReplica> simulated_;
  const integration::TemporaryDirectory files_;
  Names names_;
  std::size_t given_ = 0;
  bool guarded_ = false, changes_ = false;
  std::optional<integration::WeirUnderTest> weir_;
  std::optional<integration::Bridge> to_weir_, half_closing_;
  std::size_t silences_ = 0, reloads_ = 0, drains_ = 0, scrapes_ = 0, deaths_ = 0, flips_ = 0, switches_ = 0,
              bypasses_ = 0, comings_ = 0, leavings_ = 0, renamings_ = 0, moves_ = 0;
};

}  // namespace weir::chaos
