// The id under which an engine may keep its answer.
#include <gtest/gtest.h>

#include "metrics/vocabulary.hpp"
#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

StreamMeter::Options opaque(bool reads_id) {
  auto options = options_for(Api::other, BodyForm::opaque);
  options.reads_id = reads_id;
  return options;
}

TEST(AnswerId, IsThatOfTheResponse) {
  const auto id = hash_of_name("resp_1");
  const std::string body = R"({"object":"response","output":[{"id":"msg_1","type":"message"}],"id":"resp_1"})";
  EXPECT_EQ(replayed(body, options_for(responses, BodyForm::json))->answer().id, id);
  EXPECT_EQ(replayed(R"({"output":[{"id":"msg_1"}]})", options_for(responses, BodyForm::json))->answer().id, 0U);
  EXPECT_EQ(replayed(R"({"id":""})", options_for(responses, BodyForm::json))->answer().id, 0U);
}

TEST(AnswerId, IsKnownWithTheFirstEventOfAStream) {
  Replay replay(options_for(responses));
  replay.feed(
      "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\","
      "\"object\":\"response\",\"output\":[]}}\n\n",
      start);
  EXPECT_EQ(replay.answer().id, hash_of_name("resp_1"));
  replay.feed("data: {\"type\":\"response.output_item.added\",\"item\":{\"id\":\"msg_1\"}}\n\n", start);
  replay.feed("data: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"delta\":\"a\"}\n\n", start);
  replay.feed("data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n", start);
  replay.end();
  EXPECT_EQ(replay.answer().id, hash_of_name("resp_1"));
}

TEST(AnswerId, IsReadInAnOpaqueBodyWhereItIsWanted) {
  const std::string body = R"({"id":"file-1","object":"file","bytes":3,"filename":"a.jsonl"})";
  EXPECT_EQ(replayed(body, opaque(true))->answer().id, hash_of_name("file-1"));
  EXPECT_EQ(replayed(body, opaque(false))->answer().id, 0U);
  const auto replay = replayed("not JSON {\"id\":\"a\"}", opaque(true));
  EXPECT_EQ(replay->answer().id, 0U);
  EXPECT_FALSE(replay->answer().unparsed) << "nobody reads it for more than its id";
}

}  // namespace
}  // namespace weir::metrics::measure
