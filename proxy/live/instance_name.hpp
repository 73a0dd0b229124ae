// Finds out whether another weir on this machine has the same log.instance: then nobody can tell their lines in the
// request log apart. Each weir holds a datagram socket with an abstract name that is made of its instance; a name can
// be held once in a network namespace. Nothing is ever sent there.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "metrics/moment.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::live {

class InstanceName {
 public:
  static constexpr std::chrono::seconds look_every{10};

  /// To be called often, with the instance's name as it is now. Returns for how many seconds another process has held
  /// it; nothing if this one does, or if nobody can know.
  std::optional<double> tick(const std::string& instance, metrics::Moment now);

 private:
  std::string name_;
  net::UniqueFd held_;
  std::optional<metrics::Moment> other_since_;
  metrics::Moment next_{};
};

}  // namespace weir::proxy::live
