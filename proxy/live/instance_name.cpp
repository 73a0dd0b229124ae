#include "proxy/live/instance_name.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace weir::proxy::live {
namespace {

/// Takes the name. Returns an empty descriptor, and errno, if that cannot be.
net::UniqueFd take(const std::string& instance) {
  net::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return fd;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto name = "weir/instance/" + instance;  // An abstract name begins with a zero byte.
  const auto size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  const int error = errno;
  fd.reset();
  errno = error;
  return fd;
}

}  // namespace

std::optional<double> InstanceName::tick(const std::string& instance, metrics::Moment now) {
  if (instance != name_) {
    name_ = instance;
    held_.reset();
    other_since_.reset();
    next_ = now;
  }
  if (held_.get() < 0 && now >= next_) {
    next_ = now + look_every;
    held_ = take(instance);
    if (held_.get() >= 0 || errno != EADDRINUSE)
      other_since_.reset();
    else
      other_since_ = other_since_.value_or(now);
  }
  if (!other_since_) return std::nullopt;
  return metrics::seconds(now - *other_since_);
}

}  // namespace weir::proxy::live
