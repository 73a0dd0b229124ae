#include "proxy/serve/start.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "config/address.hpp"
#include "config/pools.hpp"
#include "config/values.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::serve {
namespace {

std::string models_of(const config::Pool& pool) {
  if (pool.models.empty()) return "any model";
  std::string names;
  for (const auto& model : pool.models) names += (names.empty() ? "" : ", ") + model;
  return (pool.models.size() == 1 ? "model " : "models ") + names;
}

void add_replicas(std::vector<std::string>& lines, const std::vector<config::Replica>& replicas,
                  const std::string& of) {
  for (const auto& replica : replicas)
    lines.push_back("replica '" + replica.name + "' of " + of + ": " + config::to_text(replica.url) + ", config '" +
                    replica.config + "'");
}

std::string what_it_shows(const config::Shadow& shadow, const config::Settings& settings) {
  if (shadow.sample)
    return "a sample of " + config::format_number(*shadow.sample * 100) +
           " %; its load differs from its primaries', so its latencies carry no verdict (only a twin's do)";
  if (shadow.control) return "the control of the twins of '" + shadow.twin + "'";
  const auto control = std::ranges::find_if(settings.shadows, [&shadow](const auto& one) {
    return one.control && one.of == shadow.of && one.twin == shadow.twin;
  });
  return "a twin of '" + shadow.twin + "'; its latencies can carry a verdict, against " +
         (control != settings.shadows.end() ? "the control '" + control->name + "'" : "'" + shadow.twin + "'");
}

std::string request_log(const std::string& file) {
  if (file.empty()) return "the request log is off";
  return "request log: " + (file == "-" ? std::string("standard output") : file);
}

/// A Unix-domain socket has no url to which a path could be added.
std::string page_of(const config::ListenAddress& address, const char* path) {
  return config::url_of(address) + (address.unix_path.empty() ? path : "");
}

std::string url_for_clients(const config::ListenAddress& address, const config::Settings& settings) {
  const auto url = config::url_of(address);
  return settings.server.tls && address.unix_path.empty() ? "https" + url.substr(url.find(':')) : url;
}

}  // namespace

std::vector<std::string> start_lines(const config::Settings& settings, const std::string& version, unsigned loops) {
  std::vector<std::string> lines{"weir " + version + " starts with " + metrics::counted(loops, "loop")};
  for (const auto& pool : settings.pools) {
    lines.push_back("pool '" + pool.name + "': " + models_of(pool) + ", " + std::string(name_of(pool.policy)) + ", " +
                    metrics::counted(pool.replicas.size(), "replica"));
    add_replicas(lines, pool.replicas, "pool '" + pool.name + "'");
  }
  for (const auto& line : shadow_lines(settings)) lines.push_back(line);
  for (const auto& shadow : settings.shadows) add_replicas(lines, shadow.replicas, "shadow '" + shadow.name + "'");
  lines.push_back(request_log(settings.log.requests));
  return lines;
}

std::vector<std::string> shadow_lines(const config::Settings& settings) {
  std::vector<std::string> lines;
  for (const auto& shadow : settings.shadows)
    lines.push_back("shadow '" + shadow.name + "' of pool '" + shadow.of + "': " + what_it_shows(shadow, settings));
  return lines;
}

std::vector<std::string> listening_lines(const config::Settings& settings) {
  std::vector<std::string> lines;
  for (const auto& address : settings.server.listen)
    lines.push_back("serving on " + url_for_clients(address, settings));
  if (settings.metrics.listen) lines.push_back("metrics on " + page_of(*settings.metrics.listen, "/metrics"));
  if (settings.admin.listen) lines.push_back("admin on " + page_of(*settings.admin.listen, "/api/live"));
  return lines;
}

namespace {

/// Writes the message as a JSON string, quotes included.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    std::string text;
    metrics::wire::append_json_string(text, std::string_view(message.payload.data(), message.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

/// Both count levels from trace on.
constexpr spdlog::level::level_enum level_of(config::LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level);
}
static_assert(level_of(config::LogLevel::trace) == spdlog::level::trace);
static_assert(level_of(config::LogLevel::info) == spdlog::level::info);
static_assert(level_of(config::LogLevel::error) == spdlog::level::err);

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(config::LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == config::LogFormat::json) {
    formatter->add_flag<JsonMessage>('j').set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%j})");
  } else {
    formatter->set_pattern("[%Y-%m-%dT%H:%M:%S.%e%z] [%^%l%$] %v");
  }
  return formatter;
}

void set_up_log(const config::Log& log) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("weir"));
  change_log(log);
}

void change_log(const config::Log& log) {
  spdlog::set_formatter(log_formatter(log.format));
  spdlog::set_level(level_of(log.level));
}

std::string instance_of(const config::Log& log) { return log.instance.empty() ? host_name() : log.instance; }

std::vector<std::string> adopt_with_logs(metrics::record::RequestLog& requests, const config::Log& before,
                                         const config::Log& after, const std::function<void()>& adopt) {
  metrics::record::RequestLog::Opened opened(after.requests);
  if (opened.problem && after.requests != before.requests) return {"log.requests: " + *opened.problem};
  const auto instance = instance_of(after);
  adopt();
  // Nothing that fails from here on undoes what was adopted.
  try {
    if (const auto problem = requests.change(std::move(opened), instance))
      events::error(events::What::reload, "", "reload: {}; its lines go on into the file that is open", *problem);
    change_log(after);
  } catch (const std::exception& error) {
    events::error(events::What::reload, "", "reload: the logs do not follow: {}", error.what());
  }
  return {};
}

namespace {

/// So many descriptors serve neither a client nor its replica: listeners, loops, logs, scrapes, idle connections.
constexpr std::size_t other_descriptors = 64;

}  // namespace

unsigned allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  auto cpus = ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1U;
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (quota_file >> quota >> period && period > 0)
    cpus = std::min(cpus, static_cast<unsigned>((quota + period - 1) / period));
  return std::max(cpus, 1U);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::size_t clients_by_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max > other_descriptors + 2 ? (limit.rlim_max - other_descriptors) / 2 : 1;
}

namespace {

constexpr int first_inherited = 3;

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const auto* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

/// Returns where a socket accepts connections, if it does.
std::optional<config::ListenAddress> listens_on(int fd) {
  const auto option = [fd](int name) {
    int value = 0;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
  };
  if (option(SO_ACCEPTCONN) == 0 || option(SO_TYPE) != SOCK_STREAM) return std::nullopt;
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return config::ListenAddress{text.data(), ntohs(address.sin_port)};
  }
  if (storage.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return config::ListenAddress{text.data(), ntohs(address.sin6_port)};
  }
  if (storage.ss_family == AF_UNIX) {
    const auto& address = reinterpret_cast<const sockaddr_un&>(storage);
    config::ListenAddress place;
    place.unix_path.assign(address.sun_path, ::strnlen(address.sun_path, sizeof address.sun_path));
    if (place.unix_path.starts_with('/')) return place;
  }
  return std::nullopt;
}

}  // namespace

std::vector<InheritedSocket> take_inherited_sockets() {
  const auto process = number_in("LISTEN_PID"), count = number_in("LISTEN_FDS");
  for (const auto* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  std::vector<InheritedSocket> sockets;
  if (process != ::getpid()) return sockets;
  for (int fd = first_inherited; fd < first_inherited + count.value_or(0); ++fd) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    const auto address = listens_on(fd);
    if (!address)
      throw std::runtime_error(
          "LISTEN_FDS: descriptor " + std::to_string(fd) +
          " accepts no connections at an address or a path; the .socket unit may have ListenStream with these only");
    sockets.push_back({*address, net::UniqueFd(fd)});
  }
  return sockets;
}

ServiceManager::ServiceManager() {
  if (const char* const socket = std::getenv("NOTIFY_SOCKET")) socket_ = socket;
  ::unsetenv("NOTIFY_SOCKET");
}

void ServiceManager::ready(std::string_view status) const { tell("READY=1\nSTATUS=" + std::string(status)); }

void ServiceManager::reloading() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();  // CLOCK_MONOTONIC, as systemd asks for.
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds) + "\nSTATUS=reloading");
}

void ServiceManager::stopping(std::string_view status) const { tell("STOPPING=1\nSTATUS=" + std::string(status)); }

void ServiceManager::status(std::string_view status) const { tell("STATUS=" + std::string(status)); }

/// A manager that does not listen is no reason to stop.
void ServiceManager::tell(const std::string& lines) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() < 2 || socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const net::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  if (fd)
    ::sendto(fd.get(), lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
             reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace weir::proxy::serve
