#include "lab/load/target.hpp"

#include <boost/url.hpp>
#include <charconv>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace weir::lab::load {

Target target_of(const std::string& url) {
  const auto parsed = boost::urls::parse_uri(url);
  const bool known = parsed && (parsed->scheme() == "http" || parsed->scheme() == "https");
  if (!known || parsed->host().empty()) {
    throw std::invalid_argument("the URL must be http://host[:port][/path] or https://..., got \"" + url + "\"");
  }
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("the URL \"" + url + "\" " + why);
  };
  if (parsed->has_userinfo()) refuse("has a user before its host, who is not sent; leave out all before the @");
  // getaddrinfo takes a port modulo 65536, and Boost.URL takes what follows its digits for a path.
  if (parsed->has_port()) {
    const std::string_view digits = parsed->port();
    unsigned port = 0;
    const bool is_number = std::from_chars(digits.data(), digits.data() + digits.size(), port).ec == std::errc();
    const bool is_all = parsed->encoded_path().empty() || parsed->encoded_path().starts_with('/');
    if (!is_number || !is_all || port < 1 || port > 65535) refuse("has no port from 1 to 65535 behind its host");
  }
  Target target;
  target.tls = parsed->scheme() == "https";
  target.host = parsed->host_type() == boost::urls::host_type::ipv6 ? parsed->host_address() : parsed->host();
  target.port = parsed->has_port() ? std::string(parsed->port()) : target.tls ? "443" : "80";
  target.prefix = std::string(parsed->encoded_path());
  while (target.prefix.ends_with('/')) target.prefix.pop_back();
  target.authority = std::string(parsed->encoded_host_and_port());
  return target;
}

std::string without_v1(std::string url) {
  std::string asked = url;
  while (url.ends_with('/')) url.pop_back();
  if (!url.ends_with("/v1") || url.ends_with("//v1")) return asked;
  url.resize(url.size() - 3);
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace weir::lab::load
