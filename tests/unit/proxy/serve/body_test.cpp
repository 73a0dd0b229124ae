#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "proxy/serve/body.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string coded(std::string_view text, int window) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}
constexpr int as_gzip = 15 + 16, as_zlib = 15, as_raw = -15;

std::string model_of(const std::string& fields, std::string_view body) {
  const auto bytes = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: w\r\n" + fields + "\r\n";
  const auto head = http::parse_request_head(bytes);
  EXPECT_TRUE(head.has_value()) << fields;
  BodyModel model(*head);
  model.read(body);
  return model.take(body);
}

const std::string form_type = "Content-Type: multipart/form-data; boundary=b0\r\n";

std::string part(const std::string& of, const std::string& text) {
  return "--b0\r\nContent-Disposition: form-data; " + of + "\r\n\r\n" + text + "\r\n";
}
const std::string form_end = "--b0--\r\n";

TEST(BodyModel, OfAFormIsItsFieldWhereverItStands) {
  const auto file = part("name=\"file\"; filename=\"a.mp3\"\r\nContent-Type: audio/mpeg",
                         std::string(300'000, '\r') + "\r\n--b\r\n\r\nname=\"model\"");
  const auto model = part("name=\"model\"", "whisper");
  for (const auto& form : {model + file, file + model, file + model + file, "a preamble\r\n" + model + file,
                           part("name=\"model\"", "llama") + file + model, part("name=model", "whisper"),
                           part("NAME=\"model\"", "whisper"), part("name=\"a;b\"; name=\"model\"", "x") + model})
    EXPECT_EQ(model_of(form_type, form + form_end), "whisper") << form.substr(0, 200);
  EXPECT_EQ(model_of("Content-Type: Multipart/Form-Data; x=\"; boundary=c\"; Boundary=\"b0\"\r\n", model + form_end),
            "whisper");
}

TEST(BodyModel, OfAFormIsNoneWhereNoFieldNamesOne) {
  const std::string long_name(129, 'm');
  for (const auto& form :
       {std::string(), std::string("\r\n"), form_end, part("name=\"file\"", "model"), part("name=\"model\"", ""),
        part("name=\"model\"; filename=\"model\"", "whisper"), part("name=\"model\"", long_name),
        part("name=\"model\"", "a\nb"), part("name=\"models\"", "whisper"), part("filename=\"name=model\"", "whisper"),
        form_end + part("name=\"model\"", "whisper"), part("name=\"model\"", "no delimiter follows"),
        std::string("--b0\r\n\r\nwhisper\r\n"),
        "--b0\r\nX: " + std::string(5000, 'x') + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n",
        std::string("--b0\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper"),
        std::string("--b0\r\nContent-Disposition: form-data; name=\"model")})
    EXPECT_EQ(model_of(form_type, form), "") << form.substr(0, 200);
  EXPECT_EQ(model_of("Content-Type: multipart/form-data\r\n", part("name=\"model\"", "m")), "");
  EXPECT_EQ(model_of("Content-Type: multipart/form-data; boundary=\"\"\r\n", part("name=\"model\"", "m")), "");
  EXPECT_EQ(model_of("Content-Type: text/plain; boundary=b0\r\n", part("name=\"model\"", "m")), "");
}

TEST(BodyModel, OfAFormIsTheSameHoweverItIsCut) {
  const auto form = "pre\r\n" + part("name=\"file\"; filename=\"a\"", "\r\n--b\r\n-\r\n--b1") + part("name=\"n\"", "") +
                    part("name=\"model\"", "first") + part("name=\"model\"", "whisper") + form_end;
  for (std::size_t piece = 1; piece <= form.size(); ++piece) {
    FormModel model("b0");
    for (std::size_t size = piece; size < form.size(); size += piece)
      model.read(std::string_view(form).substr(0, size));
    model.read(form);
    EXPECT_EQ(model.model(), "whisper") << piece;
  }
}

TEST(BodyModel, OfAnyBytesIsTheSameHoweverTheyAreCut) {
  const std::vector<std::string> pieces{"--b0",        "\r\n",     "\r\n--b0",
                                        "--",          "\r\n\r\n", "model",
                                        "\"",          "\\",       ";",
                                        "\r",          "-",        "Content-Disposition: form-data; name=\"model\"",
                                        "; filename=", "name=",    std::string(4000, 'x')};
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string form = random() % 2 == 0 ? "" : "--b0\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n";
    for (auto n = random() % 14; n > 0; --n) form += pieces[random() % pieces.size()];
    FormModel whole("b0"), cut("b0");
    whole.read(form);
    for (std::size_t size = 0; size < form.size();) {
      size = std::min<std::size_t>(form.size(), size + 1 + random() % 9);
      cut.read(std::string_view(form).substr(0, size));
    }
    ASSERT_EQ(cut.model(), whole.model()) << form;
  }
}

TEST(BodyModel, IsReadThroughGzipAndDeflate) {
  const std::string json = R"({"messages":[{"content":"Hi","model":"no"}],"model":"whisper","stream":true})";
  const auto form = part("name=\"file\"", "x") + part("name=\"model\"", "whisper") + form_end;
  const struct {
    std::string coding;
    int window;
  } rows[]{{"gzip", as_gzip}, {"X-Gzip", as_gzip}, {"deflate", as_zlib}, {"Deflate", as_raw}};
  for (const auto& row : rows) {
    const auto fields = "Content-Encoding: " + row.coding + "\r\n";
    EXPECT_EQ(model_of(fields, coded(json, row.window)), "whisper") << row.coding;
    EXPECT_EQ(model_of(fields + form_type, coded(form, row.window)), "whisper") << row.coding;
    EXPECT_EQ(model_of(fields, coded("{}", row.window)), "");
    EXPECT_EQ(model_of(fields, coded("[\"model\"]", row.window)), "");
    EXPECT_EQ(model_of(fields, coded(R"({"model":7})", row.window)), "");
    EXPECT_EQ(model_of(fields, json), "") << "it is not coded";
    EXPECT_EQ(model_of(fields, ""), "");
    const auto whole = coded(json, row.window);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto model = model_of(fields, whole.substr(0, size));
      EXPECT_TRUE(model.empty() || model == "whisper") << "half a name is none: " << model;
    }
  }
  EXPECT_EQ(model_of("Content-Encoding: identity\r\n" + form_type, form), "whisper");
  for (const auto* fields : {"Content-Encoding: br\r\n", "Content-Encoding: gzip, gzip\r\n",
                             "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"})
    EXPECT_EQ(model_of(fields, coded(json, as_gzip)), "") << fields;
}

TEST(BodyModel, OfACodedBodyStandsInTheBeginningOfItsText) {
  const auto json = [](std::size_t before) {
    return R"({"prompt":")" + std::string(before, 'x') + R"(","model":"whisper","n":")" + std::string(1 << 20, 'y') +
           "\"}";
  };
  const std::string fields = "Content-Encoding: gzip\r\n";
  EXPECT_EQ(model_of(fields, coded(json(50'000), as_gzip)), "whisper") << "the rest need not be read";
  EXPECT_EQ(model_of(fields, coded(json(BodyModel::most_decoded), as_gzip)), "");
}

TEST(BodyModel, OfABombTakesNoLongerThanItsBeginning) {
  const auto bomb = coded(std::string(std::size_t{256} << 20, ' '), as_gzip);
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(model_of("Content-Encoding: gzip\r\n", bomb), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(400)) << "all of it takes ten seconds";
}

/// The first pool has the model `m`, the second one, `speech`, has these.
config::Settings& with_speech(config::Settings& settings, const std::vector<std::string>& models) {
  settings.pools.front().models = {"m"};
  settings.pools.push_back(settings.pools.front());
  settings.pools.back().name = "speech";
  settings.pools.back().models = models;
  return settings;
}

std::string upload(const std::string& body, const std::string& fields, const std::string& path) {
  return "POST " + path + " HTTP/1.1\r\nHost: w\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(ModelOfARequest, InAFormOrACodedBodyLeadsToItsPool) {
  const auto form =
      part("name=\"file\"; filename=\"a\"", std::string(50'000, 'x')) + part("name=\"model\"", "whisper") + form_end;
  const auto json = R"({"input":"Hi","model":"whisper"})";
  const std::string transcriptions = "/v1/audio/transcriptions", gzip = "Content-Encoding: gzip\r\n";
  for (const bool bypassed : {false, true})
    for (const auto& request : {upload(form, form_type, transcriptions), upload(json, "", "/v1/audio/speech"),
                                upload(coded(json, as_gzip), gzip, "/v1/audio/speech"),
                                upload(coded(form, as_gzip), gzip + form_type, transcriptions)})
      for (const std::size_t piece : {net::Peer::any, std::size_t{100}}) {
        ScriptedProxy proxy(1, [](auto& settings) { with_speech(settings, {"whisper"}); });
        proxy.shared.bypass = bypassed;
        proxy.plan[0] = {says(whole_answer("200 OK", "{}"))};
        const auto client = proxy.asks(request, piece);
        EXPECT_EQ(read_answer(client->got).status, 200u);
        EXPECT_THAT(proxy.log_lines(),
                    testing::ElementsAre(AllOf(HasSubstr(R"("pool":"speech")"), HasSubstr(R"("model":"whisper")"))));
        EXPECT_THAT(proxy.upstream().got, testing::EndsWith(request.substr(request.find("\r\n\r\n"))));
      }
}

TEST(ModelOfARequest, ThatIsMissingIsToldWhereEachPoolHasItsOwn) {
  const std::string broken = R"({"model":"m")";
  for (const bool bypassed : {false, true})
    for (const auto& body : {std::string("{}"), std::string(R"({"model":null})"), std::string(R"({"model":7})"),
                             std::string(), broken, std::string("text")}) {
      ScriptedProxy proxy(1, [](auto& settings) { with_speech(settings, {"whisper", "kokoro"}); });
      proxy.shared.bypass = bypassed;
      const auto client = proxy.asks(post(body));
      const auto seen = read_answer(client->got);
      EXPECT_EQ(seen.status, 400u) << body;
      EXPECT_THAT(seen.body, AllOf(HasSubstr(R"("code":"model_missing")"), HasSubstr("m, whisper, kokoro")));
      EXPECT_TRUE(proxy.connections[0].empty());
      EXPECT_FALSE(client->closed());
      EXPECT_THAT(proxy.log_lines(), testing::ElementsAre(HasSubstr(R"("outcome":"bad_request")")));
    }
}

TEST(ModelOfARequest, ThatIsMissingLeadsToThePoolThatTakesAnyOrToTheOnlyOne) {
  const auto asked = [](const ScriptedProxy::Change& change, const std::string& request) {
    ScriptedProxy proxy(1, change);
    proxy.plan[0] = {says(whole_answer("200 OK", "{}"))};
    const auto client = proxy.asks(request);
    EXPECT_EQ(read_answer(client->got).status, 200u);
    return proxy.log_lines().at(0);
  };
  const auto generate = post(R"({"inputs":"Hi"})", "", "1.1", "/generate");
  EXPECT_THAT(asked([](auto& settings) { with_speech(settings, {}); }, generate), HasSubstr(R"("pool":"speech")"));
  EXPECT_THAT(asked([](auto& settings) { settings.pools.front().models = {"m"}; }, generate),
              HasSubstr(R"("pool":"pool")"));
  const std::string options = "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: w\r\n\r\n";
  EXPECT_THAT(asked([](auto& settings) { with_speech(settings, {"whisper"}); }, options), HasSubstr(R"("pool":"pool")"))
      << "it has no body that could name one";
}

}  // namespace
}  // namespace weir::proxy::serve
