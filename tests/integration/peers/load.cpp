#include "tests/integration/peers/load.hpp"

#include <optional>
#include <utility>

#include "tests/integration/peers/http_client.hpp"
#include "tests/integration/peers/look.hpp"

namespace weir::integration {

Load::Load(std::uint16_t port, std::size_t clients, std::string request, std::string end)
    : port_(port), request_(std::move(request)), end_(std::move(end)) {
  for (std::size_t i = 0; i < clients; ++i) threads_.emplace_back([this, i] { ask_all_the_time(i % 2 == 0); });
}

void Load::stop() {
  over_ = true;
  for (auto& thread : std::exchange(threads_, {})) thread.join();
}

void Load::wait_for_more(std::size_t requests) const {
  const auto wanted = answered_ + requests;
  look_until(std::to_string(requests) + " more answers", [&] { return answered_ >= wanted; });
}

std::vector<std::string> Load::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

void Load::ask_all_the_time(bool keeps) {
  std::optional<HttpClient> client;
  while (!over_) {
    std::string what;
    try {
      if (!client) client.emplace(port_);
      const auto got = client->exchange(request_);
      if (got.status != 200 || got.end != BodyEnd::whole || !got.body.ends_with(end_))
        what = "status " + std::to_string(got.status) + ": " + got.body.substr(0, 200);
      if (!keeps || got.head.field("connection") == "close") client.reset();
    } catch (const std::exception& error) {
      what = error.what();
      client.reset();
    }
    if (what.empty()) {
      ++answered_;
      continue;
    }
    client.reset();
    const std::lock_guard lock(mutex_);
    failures_.push_back(what);
  }
}

}  // namespace weir::integration
