#include "tests/integration/peers/dns_server.hpp"

#include <signal.h>

#include <stdexcept>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/socket.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

constexpr auto program = "/usr/sbin/dnsmasq";

}  // namespace

DnsServer::DnsServer() : port_(free_port()) {
  if (!std::filesystem::exists(program))
    throw std::runtime_error(std::string(program) + " is not there: run scripts/setup, which installs dnsmasq-base");
  const auto hosts = (directory_.path() / "hosts").string();
  write_file(hosts, "");
  process_.emplace(
      std::vector<std::string>{program, "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
                               "--addn-hosts=" + hosts, "--local=/" + std::string(domain) + "/", "--local-ttl=0",
                               "--bind-interfaces", "--listen-address=127.0.0.1", "--port=" + std::to_string(port_)},
      directory_.path() / "output");
  answers({});
}

void DnsServer::answers(const std::vector<std::string_view>& addresses) {
  std::string list;
  for (const auto address : addresses) list += std::string(address) + " engines." + std::string(domain) + "\n";
  write_file(directory_.path() / "hosts", list);
  // dnsmasq says so each time that it has read the list: once by itself at its start, and at each HUP.
  if (times_read_++ > 0) process_->send(SIGHUP);
  look_until("dnsmasq to read its list; it said: " + output(), [this] {
    if (process_->wait(std::chrono::milliseconds(0))) throw std::runtime_error("dnsmasq ended and said: " + output());
    return times_in(output(), "read " + (directory_.path() / "hosts").string()) >= times_read_;
  });
}

}  // namespace weir::integration
