#include "proxy/http/credential.hpp"

#include <algorithm>
#include <array>

namespace weir::proxy::http {
namespace {

/// They are OpenAI's and Anthropic's, and those that gateways in front of engines ask for: Azure, Google, AWS and OAuth
/// proxies. Proxy-Authorization goes to no replica in any case.
constexpr std::array<std::string_view, 9> credential_fields{"authorization",
                                                            "x-api-key",
                                                            "cookie",
                                                            "api-key",
                                                            "ocp-apim-subscription-key",
                                                            "x-goog-api-key",
                                                            "x-auth-token",
                                                            "x-access-token",
                                                            "x-amz-security-token"};
constexpr std::array<std::string_view, 6> credential_parameters{"key",    "api_key", "api-key",
                                                                "apikey", "token",   "access_token"};

template <std::size_t N>
bool has_token(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::any_of(names, [name](std::string_view known) { return same_token(name, known); });
}

}  // namespace

std::string_view credential_of(const RequestHead& head) {
  constexpr std::string_view bearer = "bearer ";
  const auto authorization = head["authorization"];
  if (authorization.size() <= bearer.size() || !same_token(authorization.substr(0, bearer.size()), bearer))
    return head["x-api-key"];
  const auto key = authorization.substr(bearer.size());
  const auto begin = key.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : key.substr(begin);
}

bool is_credential(std::string_view field_name) { return has_token(credential_fields, field_name); }

std::string without_credentials(std::string_view target) {
  const auto question = target.find('?');
  std::string kept(target.substr(0, question));
  if (question == std::string_view::npos) return kept;
  char separator = '?';
  for (auto rest = target.substr(question);;) {
    rest.remove_prefix(1);
    const auto end = std::min(rest.find('&'), rest.size());
    const auto parameter = rest.substr(0, end);
    if (!has_token(credential_parameters, parameter.substr(0, parameter.find('=')))) {
      kept.append(1, separator).append(parameter);
      separator = '&';
    }
    if (end == rest.size()) return kept;
    rest.remove_prefix(end);
  }
}

}  // namespace weir::proxy::http
