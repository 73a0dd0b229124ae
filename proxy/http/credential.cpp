#include "proxy/http/credential.hpp"

namespace weir::proxy::http {

std::string_view credential_of(const RequestHead& head) {
  constexpr std::string_view bearer = "bearer ";
  const auto authorization = head["authorization"];
  if (authorization.size() <= bearer.size() || !same_token(authorization.substr(0, bearer.size()), bearer))
    return head["x-api-key"];
  const auto key = authorization.substr(bearer.size());
  const auto begin = key.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : key.substr(begin);
}

}  // namespace weir::proxy::http
