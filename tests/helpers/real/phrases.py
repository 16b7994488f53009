"""Sentences in many scripts, the raw material of the prose documents.

Greetings, the first article of the Universal Declaration of Human Rights, and everyday remarks;
what they say does not matter, which characters they need does.
"""

PHRASES: dict[str, tuple[str, ...]] = {
    "english": (
        "The quick brown fox jumps over the lazy dog.",
        "It's what they'd said: we'll see, I'm sure you've tried, didn't you?",
        "“Curly quotes” — and dashes – and an ellipsis… all in one line.",
        "HELLO WORLD, this is CamelCase and snake_case and kebab-case.",
    ),
    "german": (
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
        "Fußgängerübergänge und Donaudampfschifffahrtsgesellschaftskapitäne.",
        "STRASSE oder STRAẞE? Größer, älter, übel.",
    ),
    "french": (
        "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
        "L’œuf, c’est déjà l’été ; où est le garçon ? « Là-bas ! »",
    ),
    "spanish": (
        "¿Dónde está el pingüino? ¡Mañana por la mañana, señor!",
        "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    ),
    "portuguese": ("Não há razão para a ação; as maçãs estão lá.", "Você já comeu pão de queijo?"),
    "polish": ("Zażółć gęślą jaźń.", "Wszyscy ludzie rodzą się wolni i równi w godności."),
    "czech": ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "Všichni lidé rodí se svobodní."),
    "hungarian": ("Árvíztűrő tükörfúrógép.", "Minden emberi lény szabadon születik."),
    "turkish": ("Pijamalı hasta yağız şoföre çabucak güvendi.", "İstanbul'da ılık ığdır IŞIK."),
    "vietnamese": (
        "Tất cả mọi người sinh ra đều được tự do và bình đẳng.",
        "Một ngày đẹp trời, những người bạn đi dạo phố.",
    ),
    "icelandic": ("Kæmi ný öxi hér ykist þjófum nú bæði víl og ádrepa.",),
    "finnish": ("Törkylempijävongahdus ja hääyöaie.", "Kaikki ihmiset syntyvät vapaina."),
    "maltese": ("Il-bnedmin kollha jitwieldu ħielsa u ugwali fid-dinjità.",),
    "welsh": ("Genir pawb yn rhydd ac yn gydradd â’i gilydd; ŵyr, tŷ.",),
    "hausa": ("Su dai ƴan-adam, ana haifuwarsu ne duka ƴantattu ɓangare ɗaya.",),
    "yoruba": ("Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.",),
    "greek": (
        "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
        "ἐν ἀρχῇ ἦν ὁ λόγος, καὶ ὁ λόγος ἦν πρὸς τὸν θεόν. ΟΔΟΣ ς σ",
    ),
    "russian": (
        "Все люди рождаются свободными и равными в своём достоинстве и правах.",
        "Съешь же ещё этих мягких французских булок, да выпей чаю!",
    ),
    "ukrainian": ("Усі люди народжуються вільними; щастя, їжак, ґанок, євро.",),
    "serbian": ("Сва људска бића рађају се слободна; њ, ћ, џ, ђ.",),
    "kazakh": ("Барлық адамдар тумысынан азат және қадір-қасиеті тең дүниеге келеді.",),
    "armenian": ("Բոլոր մարդիկ ծնվում են ազատ ու հավասար՝ իրենց արժանապատվությամբ։",),
    "georgian": ("ყველა ადამიანი იბადება თავისუფალი და თანასწორი. ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ",),
    "hebrew": (
        "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
        "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם",
    ),
    "arabic": (
        "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق.",
        "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ ٱلرَّحِيمِ ١٢٣٤٥ ـــ ﷺ",
    ),
    "persian": ("تمام افراد بشر آزاد به دنیا می‌آیند؛ گچ پژ ۱۲۳۴۵۶",),
    "urdu": ("تمام انسان آزاد اور حقوق و عزت کے اعتبار سے برابر پیدا ہوئے ہیں۔",),
    "syriac": ("ܟܠ ܒܪܢܫܐ ܒܪܝܠܗ ܚܐܪܐ ܘܒܪܒܪ ܓܘ ܐܝܩܪܐ",),
    "amharic": (
        "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
        "ሰላም፣ እንዴት ነህ? ፩፪፫",
    ),
    "hindi": (
        "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
        "क्या आप ठीक हैं? ज़रूर, १२३४५ क्षत्रिय ज्ञान श्री",
    ),
    "bengali": ("সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",),
    "punjabi": ("ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ, ਸ਼ਾਨ ਅਤੇ ਹੱਕਾਂ ਦੇ ਪੱਖੋਂ ਆਜ਼ਾਦ ਹੈ।",),
    "gujarati": ("પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ સર્વ માનવો જન્મથી સ્વતંત્ર છે.",),
    "tamil": ("மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; ௧௨௩",),
    "telugu": ("ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులు.",),
    "kannada": ("ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ.",),
    "malayalam": ("മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും ജനിച്ചവരാണ്.",),
    "sinhala": ("සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත. ශ්‍රී ලංකා",),
    "thai": (
        "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
        "สวัสดีครับ วันนี้อากาศดีมาก ๆ ๑๒๓ น้ำใจ",
    ),
    "lao": ("ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ, ສິດທິ, ເສລີພາບ.",),
    "khmer": ("មនុស្សទាំងអស់ កើតមកមានសេរីភាព និងសមភាព ក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរ។",),
    "burmese": ("လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများဖြစ်သည်။",),
    "tibetan": ("འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས།",),
    "mongolian": ("ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ ᠮᠡᠨᠳᠡᠯᠡᠬᠦ", "Хүн бүр төрж мэндлэхэд эрх чөлөөтэй."),
    "chinese": (
        "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。",
        "今天天气很好，我们去公园散步吧！你吃了吗？",
        "第２０２４年《红楼梦》——曹雪芹（著）……",
    ),
    "taiwanese": ("人人生而自由，在尊嚴和權利上一律平等。「繁體字」ㄅㄆㄇㄈ",),
    "japanese": (
        "すべての人間は、生まれながらにして自由であり、尊厳と権利について平等である。",
        "カタカナとｶﾀｶﾅ、ひらがな、漢字。がぎぐ が ㍿ ㌔",
    ),
    "korean": (
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
        "안녕하세요! 오늘은 날씨가 좋네요. 한글 ㅋㅋㅋ ㅠㅠ",
    ),
    "cherokee": ("ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ ᎠᎴ ᎤᏂᏠᏱ ᎤᎾᏕᎿ ᏚᏳᎧᏛ",),
    "inuktitut": ("ᐃᓅᔪᓕᒫᑦ ᐊᓂᖅᑎᕆᔪᓕᒫᑦ ᐃᓅᓕᖅᑎᑕᐅᖕᒪᑕ",),
    "tifinagh": ("ⵉⵎⴷⴰⵏⴻⵏ ⵎⴰⵕⵕⴰ ⵜⵜⵍⴰⵍⴻⵏ ⴷ ⵉⵍⴻⵍⵍⵉⵢⴻⵏ",),
    "gothic": ("𐌰𐌻𐌻𐌰𐌹 𐌼𐌰𐌽𐌽𐌰 𐍆𐍂𐌴𐌹𐌷𐌰𐌻𐍃", "𐌰𐍄𐍄𐌰 𐌿𐌽𐍃𐌰𐍂"),
    "cuneiform": ("𒀀𒈾 𒁹 𒂊𒀀 𒈾𒍢𒅕", "𓂀𓃠𓆣 𓇳"),
    "deseret": ("𐐜 𐐿𐐶𐐮𐐿 𐐺𐑉𐐵𐑌 𐑁𐐱𐐿𐑅",),
    "adlam": ("𞤋𞤲𞥆𞤢𞤥𞤢 𞤢𞥄𞤣𞤫𞥅𞤶𞤭 𞤬𞤮𞤼 𞤨𞤮𞤼𞤭",),
    "ipa": ("ðə ˈkwɪk ˈbraʊn ˈfɒks ˈdʒʌmps ˈəʊvə ðə ˈleɪzi ˈdɒɡ",),
}
