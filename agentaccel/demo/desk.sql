CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, country TEXT, plan TEXT, since TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, item TEXT, cents INTEGER, status TEXT, placed TEXT, carrier TEXT);
CREATE TABLE tickets (id INTEGER PRIMARY KEY, customer_id INTEGER, subject TEXT, status TEXT, opened TEXT);
CREATE TABLE notes (id INTEGER PRIMARY KEY, ticket_id INTEGER, author TEXT, text TEXT);
CREATE TABLE articles (id INTEGER PRIMARY KEY, title TEXT, body TEXT);
INSERT INTO customers VALUES
 (1, 'Ines Okafor', 'ines@lantern.example', 'DE', 'team', '2024-03-11'),
 (2, 'Tom Varga', 'tom@brickyard.example', 'HU', 'solo', '2025-01-20'),
 (3, 'Mei Tanaka', 'mei@riverside.example', 'JP', 'team', '2023-09-02'),
 (4, 'Lou Ferreira', 'lou@harbour.example', 'PT', 'enterprise', '2022-05-30');
INSERT INTO orders VALUES
 (1001, 1, 'Desk lamp, brass', 8900, 'delivered', '2026-10-02', 'northpost'),
 (1002, 1, 'Desk lamp, brass', 8900, 'delivered', '2026-10-02', 'northpost'),
 (1003, 1, 'Bulb set', 1900, 'returned', '2026-10-09', 'northpost'),
 (1004, 2, 'Standing desk', 52900, 'in transit', '2026-11-12', 'heavyhaul'),
 (1005, 2, 'Cable tray', 2400, 'delivered', '2026-11-01', 'northpost'),
 (1006, 3, 'Monitor arm', 13900, 'delivered', '2026-09-18', 'eastline'),
 (1007, 3, 'Monitor arm', 13900, 'lost', '2026-10-27', 'eastline'),
 (1008, 4, 'Acoustic panel x12', 110400, 'in transit', '2026-11-15', 'heavyhaul'),
 (1009, 4, 'Acoustic panel x4', 36800, 'delivered', '2026-10-21', 'heavyhaul');
INSERT INTO tickets VALUES
 (501, 1, 'Charged twice for the same lamp', 'open', '2026-11-18'),
 (502, 2, 'Desk has not arrived', 'open', '2026-11-19'),
 (503, 3, 'Second arm never came', 'open', '2026-11-19'),
 (504, 4, 'Panels delayed, need an invoice', 'open', '2026-11-20');
INSERT INTO notes VALUES
 (1, 501, 'Ines Okafor', 'I ordered one lamp and was charged for two. The second parcel came a day later and is still sealed.'),
 (2, 502, 'Tom Varga', 'The tracking page has said "in transit" for a week. I stayed at home for it twice.'),
 (3, 503, 'Mei Tanaka', 'The first arm is great. The second one was marked delivered but I never got it.'),
 (4, 504, 'Lou Ferreira', 'Our fit-out waits for these. Please also send an invoice with our tax number.');
INSERT INTO articles VALUES
 (1, 'Duplicate orders', 'If the same item was ordered twice within an hour, the second order counts as a duplicate. A sealed duplicate is refunded in full once it is on its way back; we pay for the label.'),
 (2, 'Late freight', 'Freight is late after seven working days. From then on the customer may choose between a new date within 48 hours and a refund. Offer both.'),
 (3, 'Lost parcels', 'A parcel counts as lost when the carrier has had no scan for ten days, or says so. Lost parcels are sent again at once, without asking for proof.'),
 (4, 'Invoices', 'Invoices with a tax number can be issued for every order that has shipped. Finance sends them within one working day.'),
 (5, 'Refund times', 'Card refunds take three to five working days, bank transfers up to ten.');
