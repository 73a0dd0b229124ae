// A fixture for tests in which an operator asks a weir at its admin listener, by requests and by commands of weir.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {

class OperatedWeir : public testing::Test {
 protected:
  ScriptedReplica::Handler plays() const { return integration::plays(script); }
  /// Streams the first two events, and goes on when the test says so.
  ScriptedReplica::Handler waits() {
    return [this](Exchange& exchange) { play_with_pause(exchange, script, 2, go_on); };
  }
  /// Begins a stream whose replica waits.
  Response begin_stream(HttpClient& client) const {
    client.send(post(chat, chat_body()));
    auto got = client.response_head();
    client.read_until(got, script.events[1]);
    return got;
  }
  WeirSettings with_admin(WeirSettings settings) const { return integration::with_admin(std::move(settings), admin); }
  /// Runs a command of the program against that listener.
  Finished command(std::vector<std::string> words) const {
    words.insert(words.end(), {"--admin", at_loopback(admin)});
    return run_weir(std::move(words));
  }
  boost::json::value live() const { return boost::json::parse(get_admin(admin, "/api/live").body); }
  std::string replicas() const { return boost::json::serialize(live().at("replicas")); }

  const StreamScript script = vllm_chat(4);
  const std::uint16_t admin = free_port();
  Event go_on;
};

}  // namespace weir::integration
