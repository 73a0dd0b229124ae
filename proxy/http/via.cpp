#include "proxy/http/via.hpp"

#include <cstdio>
#include <random>

namespace weir::proxy::http {

const std::string& name_in_via() {
  static const auto name = [] {
    std::random_device device;
    char text[32];
    std::snprintf(text, sizeof text, "weir-%08x%08x", device(), device());
    return std::string(text);
  }();
  return name;
}

}  // namespace weir::proxy::http
