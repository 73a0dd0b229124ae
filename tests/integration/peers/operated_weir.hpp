// A fixture for tests in which an operator asks a weir at its admin listener, by requests and by commands of weir.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {

class OperatedWeir : public testing::Test {
 protected:
  explicit OperatedWeir(StreamScript played = vllm_chat(3)) : script(std::move(played)) {}

  ScriptedReplica::Handler plays() {
    return [this](Exchange& exchange) { play(exchange, script); };
  }
  /// The same settings, with an admin listener.
  WeirSettings with_admin(WeirSettings settings) const {
    settings.admin["listen"] = quoted(at_loopback(admin));
    return settings;
  }
  /// Runs a command of the program against that listener.
  Finished command(std::vector<std::string> words) const {
    words.insert(words.begin(), weir_program());
    words.insert(words.end(), {"--admin", at_loopback(admin)});
    return run(std::move(words));
  }
  static std::string who_answers(const WeirUnderTest& weir) {
    return fetch(weir.port(), post(chat, chat_body())).head.field("x-weir-replica").value_or("nobody");
  }

  const StreamScript script;
  const std::uint16_t admin = free_port();
};

}  // namespace weir::integration
