// Writes what the log says when weir starts: what an operator wants to know of the settings without reading them.
#pragma once

#include <spdlog/formatter.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "metrics/record/request_log.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::serve {

/// Names version and loops, each pool with its policy and models, each replica with its url and config, and the request
/// log.
std::vector<std::string> start_lines(const config::Settings& settings, const std::string& version, unsigned loops);

/// Says of each shadow which requests it gets, and whether its latencies can carry a verdict.
std::vector<std::string> shadow_lines(const config::Settings& settings);

/// Says where weir listens, once it does.
std::vector<std::string> listening_lines(const config::Settings& settings);

// Sets up weir's own log: spdlog on standard error, in the form that [log] sets.

/// The text form is `[2026-11-21T07:00:00.123+00:00] [info] serving on 127.0.0.1:8080`. The json form is one object a
/// line with time, level and message, whatever the message holds.
std::unique_ptr<spdlog::formatter> log_formatter(config::LogFormat format);

/// Makes the default logger. It is to be called once, before threads begin.
void set_up_log(const config::Log& log);

/// Gives that logger another form and level, on any thread.
void change_log(const config::Log& log);

/// Returns log.instance, or the host's name where that is not set.
std::string instance_of(const config::Log& log);

/// Calls `adopt`, and then lets the request log and weir's own follow the settings. Returns why that cannot be; then,
/// and if `adopt` throws, both logs are as they were. A request log whose path is the same is opened anew, since its
/// file may have been moved; if only that fails, the open file stays, for a key has to be revocable whatever has become
/// of the log's folder.
std::vector<std::string> adopt_with_logs(metrics::record::RequestLog& requests, const config::Log& before,
                                         const config::Log& after, const std::function<void()>& adopt);

// Asks the machine for CPUs, descriptors and its name.

/// Returns how many CPUs this process may use: affinity, and the cgroup's quota rounded up. At least 1.
unsigned allowed_cpus();

std::string host_name();

/// Takes as many descriptors as the system allows this process. Returns for how many clients they are enough, each with
/// a replica's connection. With more clients than that, none of them would reach a replica.
std::size_t clients_by_descriptors();

// The protocols between systemd and weir: listening sockets that systemd holds (LISTEN_FDS), and weir's state
// (NOTIFY_SOCKET). sd_listen_fds(3) and sd_notify(3) describe both; without systemd there is nothing of either.

/// A listening socket that weir got at its start. Others may accept on it too, and it goes on when weir ends.
struct InheritedSocket {
  config::ListenAddress address;
  net::UniqueFd fd;
};

/// Takes the sockets that the environment says this process got. Throws std::runtime_error with a sentence if one of
/// them is none on which connections are accepted.
std::vector<InheritedSocket> take_inherited_sockets();

class ServiceManager {
 public:
  ServiceManager();

  void ready(std::string_view status) const;
  void reloading() const;  ///< ready() follows, whatever came of it.
  void stopping(std::string_view status) const;
  void status(std::string_view status) const;

 private:
  void tell(const std::string& lines) const;

  std::string socket_;
};

}  // namespace weir::proxy::serve
