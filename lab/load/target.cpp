#include "lab/load/target.hpp"

#include <boost/url.hpp>
#include <stdexcept>

namespace weir::lab::load {

Target target_of(const std::string& url) {
  const auto parsed = boost::urls::parse_uri(url);
  const bool known = parsed && (parsed->scheme() == "http" || parsed->scheme() == "https");
  if (!known || parsed->host().empty()) {
    throw std::invalid_argument("the URL must be http://host[:port][/path] or https://..., got \"" + url + "\"");
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
  const std::string asked = url;
  while (url.ends_with('/')) url.pop_back();
  if (!url.ends_with("/v1") || url.ends_with("//v1")) return asked;
  url.resize(url.size() - 3);
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace weir::lab::load
