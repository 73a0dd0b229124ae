#include "tests/integration/faults/strikes.hpp"

namespace weir::integration {
namespace {

using Strike = Stage::Strike;

constexpr std::size_t events_before = 4;
constexpr std::size_t interim_answers = 2000;
constexpr std::string_view garbage = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad";

std::string error_and_marker() { return chunk(std::string(vllm_error) + "data: [DONE]\n\n") + std::string(last_chunk); }

std::string whole_answer(Exchange& exchange, const StreamScript& script) {
  return sse_head() + chunk(script.body(asks_for_usage(exchange.request()))) + std::string(last_chunk);
}

/// Sends the head, and, unless the request is to stay in prefill, some events, which the client has afterwards.
void begin(Exchange& exchange, Stage& stage, Phase phase) {
  const auto before = stage.bytes_at_client();
  exchange.send(sse_head());
  if (phase == Phase::prefill) return;
  auto bytes = before;
  for (std::size_t i = 0; i < events_before; ++i) {
    const auto& event = stage.script_of(exchange).events[i];
    bytes += event.size();
    exchange.send(chunk(event));
  }
  stage.wait_for_client(bytes);
  stage.wait_until_told();
}

void storm(Exchange& exchange) {
  for (std::size_t i = 0; i < interim_answers; ++i)
    exchange.send(i % 2 == 0 ? "HTTP/1.1 100 Continue\r\n\r\n" : "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
}

void wait_for_close(Exchange& exchange, Stage& stage) {
  stage.saw_close(exchange.wait_for_close());
  exchange.close();
}

}  // namespace

Strikes strikes_of(Fault fault, Phase phase) {
  const bool early = phase == Phase::sending;
  switch (fault) {
    case Fault::reset_before_head: {
      const Strike strike = [](Exchange& exchange, Stage& stage) {
        stage.wait_until_told();
        exchange.reset();
      };
      if (phase == Phase::connecting) return {};
      return early ? Strikes{strike, {}} : Strikes{{}, strike};
    }
    case Fault::reset_mid_stream:
      return {{}, [phase](Exchange& exchange, Stage& stage) {
                begin(exchange, stage, phase);
                exchange.reset();
              }};
    case Fault::fin_mid_chunk:
      return {{}, [phase](Exchange& exchange, Stage& stage) {
                begin(exchange, stage, phase);
                exchange.send("40\r\ndata: {");
                exchange.close();
              }};
    case Fault::half_close: {
      const Strike strike = [phase](Exchange& exchange, Stage& stage) {
        if (phase == Phase::streaming) begin(exchange, stage, phase);
        if (phase == Phase::queued) stage.wait_until_told();
        if (phase == Phase::keep_alive) {  // The connection is idle, as one is that an engine closes after 5 s.
          play(exchange, stage.script_of(exchange));
          stage.wait_for_whole(1);
        }
        exchange.finish_sending();
        wait_for_close(exchange, stage);
      };
      return early ? Strikes{strike, {}} : Strikes{{}, strike};
    }
    case Fault::stall: {
      const Strike strike = [phase](Exchange& exchange, Stage& stage) {
        if (phase == Phase::streaming) begin(exchange, stage, phase);
        wait_for_close(exchange, stage);
      };
      // A replica that reads nothing would not notice that it was closed to.
      const Strike deaf = [](Exchange& exchange, Stage& stage) {
        stage.wait_for_whole(1);
        wait_for_close(exchange, stage);
      };
      return early ? Strikes{deaf, {}} : Strikes{{}, strike};
    }
    case Fault::one_byte_at_a_time:
      return {{}, [phase](Exchange& exchange, Stage& stage) {
                const auto bytes = whole_answer(exchange, stage.script_of(exchange));
                const auto head = sse_head().size();
                if (phase == Phase::queued) stage.wait_until_told();
                if (phase == Phase::streaming) {
                  exchange.send(bytes.substr(0, head));
                  exchange.send_bytewise(bytes.substr(head));
                } else {
                  exchange.send_bytewise(bytes);
                }
              }};
    case Fault::garbage_after_the_response:
      return {{}, [phase](Exchange& exchange, Stage& stage) {
                const auto bytes = whole_answer(exchange, stage.script_of(exchange));
                if (phase == Phase::queued) stage.wait_until_told();
                if (phase != Phase::keep_alive) return exchange.send(bytes + std::string(garbage));
                exchange.send(bytes);
                stage.wait_for_whole(1);
                exchange.send(garbage);
                exchange.wait_until_taken();  // It came before the next request, then.
                stage.idle_connection_is_spoilt();
              }};
    case Fault::early_4xx:
      return {[](Exchange& exchange, Stage& stage) {
                exchange.send(answer("413 Payload Too Large", "{\"error\":\"too large\"}"));
                wait_for_close(exchange, stage);
              },
              {}};
    case Fault::storm_of_1xx: {
      const Strike then_answers = [phase](Exchange& exchange, Stage& stage) {
        if (phase == Phase::queued) stage.wait_until_told();
        storm(exchange);
        play(exchange, stage.script_of(exchange));
      };
      const Strike before_the_body = [](Exchange& exchange, Stage&) { storm(exchange); };
      return early ? Strikes{before_the_body, {}} : Strikes{{}, then_answers};
    }
    case Fault::in_band_error: {
      const Strike strike = [phase](Exchange& exchange, Stage& stage) {
        if (phase == Phase::queued) stage.wait_until_told();
        if (phase == Phase::streaming) {
          begin(exchange, stage, phase);
        } else {
          exchange.send(sse_head());
        }
        exchange.send(error_and_marker());
        if (phase == Phase::sending) wait_for_close(exchange, stage);
      };
      return early ? Strikes{strike, {}} : Strikes{{}, strike};
    }
    default:
      return {};
  }
}

Strikes waits_for_close(Phase phase) {
  const Strike strike = [phase](Exchange& exchange, Stage& stage) {
    if (phase == Phase::streaming) begin(exchange, stage, phase);
    wait_for_close(exchange, stage);
  };
  return phase == Phase::sending ? Strikes{strike, {}} : Strikes{{}, strike};
}

Strikes answers_step_by_step(Phase phase) {
  const Strike answers = [phase](Exchange& exchange, Stage& stage) {
    std::size_t sent = 0;
    if (phase == Phase::streaming) {
      begin(exchange, stage, phase);
      sent = events_before;
    } else {
      stage.wait_until_told();
      exchange.send(sse_head());
    }
    const auto& script = stage.script_of(exchange);
    for (auto bytes = stage.bytes_at_client(); sent < script.events.size(); ++sent) {
      exchange.send(chunk(script.events[sent]));
      bytes += script.events[sent].size();
      stage.wait_for_client(bytes);
    }
    if (asks_for_usage(exchange.request())) exchange.send(chunk(script.usage));
    exchange.send(chunk(script.marker) + std::string(last_chunk));
  };
  if (phase != Phase::sending) return {{}, answers};
  return {[](Exchange&, Stage& stage) { stage.wait_until_told(); }, answers};
}

}  // namespace weir::integration
