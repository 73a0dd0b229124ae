#include "proxy/net/address_race.hpp"

#include <algorithm>
#include <cerrno>

namespace weir::proxy::net {
namespace {

/// True if weir's own machine lacks the address family or a route.
bool has_no_way(int error) {
  return error == EAFNOSUPPORT || error == ENETUNREACH || error == EPROTONOSUPPORT;
}

}  // namespace

std::optional<std::size_t> AddressRace::next(metrics::Moment now) {
  if (begun_ == addresses_ || now < due_) return std::nullopt;
  due_ = now + head_start;
  return begun_++;
}

void AddressRace::failed(int error, const Address& at) {
  const bool no_family = error == EADDRNOTAVAIL && !at.is_path() && at.address().is_v6();
  errors_.push_back(no_family ? ENETUNREACH : error);
  due_ = metrics::Moment::min();
}

int AddressRace::error() const {
  const auto refused = [](int error) { return error == ECONNREFUSED; };
  int found = 0;
  for (const int error : errors_)
    if (!has_no_way(error) && (found == 0 || refused(found))) found = error;
  return found != 0 ? found : errors_.front();
}

}  // namespace weir::proxy::net
