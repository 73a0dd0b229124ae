// A real nameserver (Debian's dnsmasq) on a loopback port, which answers from a list that the test changes.
//
// weir asks it by `nameserver` of [discovery], so the test needs no root and changes nothing of the system's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/peers/process.hpp"

namespace weir::integration {

class DnsServer {
 public:
  /// Returns when it answers. Throws if dnsmasq is not installed.
  DnsServer();

  /// Every name of this domain is its own to answer.
  static constexpr std::string_view domain = "weir.test";
  /// `engines.weir.test` has these addresses from now on; none: there is no such name. Returns when it has read that.
  void answers(const std::vector<std::string_view>& addresses);

  /// As [discovery] nameserver has it.
  std::string address() const { return "\"127.0.0.1:" + std::to_string(port_) + "\""; }

 private:
  std::string output() const { return read_file(directory_.path() / "output"); }

  TemporaryDirectory directory_;
  std::uint16_t port_;
  std::size_t times_read_ = 0;
  std::optional<Process> process_;
};

}  // namespace weir::integration
